"""``run.atomic``: writes, what they enqueue, and the step's record are one commit."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from testproject.shop.models import LedgerEntry, Order
from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    claim,
    second_connection,
    sql,
    staged,
    wait_for_blocked,
)
from tests.steps.runs import (
    ONCE,
    TWICE,
    Calls,
    FirstTime,
    lapse,
    row,
    run_to_the_end,
    start,
    step_of,
    trace,
    work,
)
from tests.steps.wire import exchanges
from ultimate_jobs import Enqueued, JobsError, Retry, Run, publish_event
from ultimate_jobs.models import Event, Job as JobRow
from ultimate_jobs.operate.verbs import cancel_job

pytestmark = pytest.mark.django_db(transaction=True)


def reserve(reference: str = "o-1") -> int:
    return int(Order.objects.create(reference=reference, amount=Decimal(5)).pk)


def references() -> list[str]:
    return sorted(Order.objects.values_list("reference", flat=True))


def seen_elsewhere() -> tuple[list[str], int]:
    """What another connection sees: the orders, and the outbox rows."""
    return second_connection(lambda: (references(), len(staged()))).result(PATIENCE)


class Broken(Exception):
    """What the functions here raise."""


def test_writes_enqueues_events_and_the_record_become_visible_together(
    declare: Declarations,
) -> None:
    mail = declare()
    before: list[object] = []
    after: list[object] = []

    def sell() -> str:
        reserve()
        mail.enqueue(Ping("mail"))
        publish_event("sold", {})
        before.append(seen_elsewhere())
        return "sold"

    def body(run: Run[Ping]) -> object:
        answer = run.atomic("sell", sell)
        after.append(seen_elsewhere())
        return answer

    ended = run_to_the_end(declare(body))

    assert before == [([], 0)]
    assert after == [(["o-1"], 1)]
    assert ended.result == "sold"
    assert trace(ended) == [("sell", "completed")]
    assert Event.objects.count() == 1
    assert JobRow.objects.get(name=mail.name).state == "done"


@pytest.mark.counts_claims
def test_it_is_one_commit(declare: Declarations) -> None:
    start(declare(lambda run: run.atomic("reserve", reserve)))

    with exchanges() as seen:
        work()

    assert seen.count("COMMIT") == 1
    body_and_settle = [name for name in seen if name not in ("CLAIM", "OUTBOX_RELAY")]
    assert body_and_settle == ["INSERT", "STEP_PUT", "COMMIT", "SETTLE"]


def test_an_error_undoes_everything_and_only_the_failure_is_stored(declare: Declarations) -> None:
    mail = declare()

    def sell() -> None:
        reserve()
        mail.enqueue(Ping("mail"))
        publish_event("sold", {})
        raise Broken

    ended = run_to_the_end(declare(lambda run: run.atomic("sell", sell), retry=ONCE))

    assert (references(), staged(), Event.objects.count()) == ([], [], 0)
    assert trace(ended) == [("sell", "failed")]
    assert "Broken" in str(step_of(ended, "sell").error)
    assert "Broken" in str(ended.last_error)


def test_an_output_that_cannot_be_stored_undoes_the_writes_too(declare: Declarations) -> None:
    def sell() -> object:
        reserve()
        return {1, 2}

    ended = run_to_the_end(declare(lambda run: run.atomic("sell", sell)))

    assert references() == []
    assert "X_STEP_OUTPUT_UNSERIALIZABLE" in str(ended.last_error)


def test_it_takes_effect_exactly_once_however_often_the_run_is_tried(
    declare: Declarations,
) -> None:
    calls = Calls()

    def body(run: Run[Ping]) -> None:
        run.atomic("reserve", reserve)
        calls.append("tried")
        if len(calls) < 4:
            raise Broken

    many = Retry(attempts=5, delay="1ms", jitter=False)
    ended = run_to_the_end(declare(body, retry=many))

    assert (ended.state, ended.attempt) == ("done", 4)
    assert references() == ["o-1"]


def test_a_constraint_that_is_refused_at_the_commit_undoes_the_record(
    declare: Declarations,
) -> None:
    sql("CREATE TABLE checked_late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    fails = FirstTime(Broken())

    def twice() -> None:
        sql("INSERT INTO checked_late VALUES (1)")
        try:
            fails()
        except Broken:
            sql("INSERT INTO checked_late VALUES (1)")

    try:
        ended = run_to_the_end(declare(lambda run: run.atomic("late", twice), retry=TWICE))
        assert (ended.state, ended.attempt) == ("done", 2)
        assert sql("SELECT count(*) FROM checked_late") == [(1,)]
        assert step_of(ended, "late").attempts == 2
    finally:
        sql("DROP TABLE checked_late")


class TestNesting:
    def test_blocks_and_savepoints_inside_behave_as_ever(self, declare: Declarations) -> None:
        def sell() -> None:
            with transaction.atomic():
                reserve("kept")
            try:
                with transaction.atomic():
                    reserve("undone")
                    raise Broken  # noqa: TRY301 - a function leaves its block this way
            except Broken:
                reserve("instead")
            try:
                with transaction.atomic():
                    reserve("kept")
            except IntegrityError:
                reserve("after the conflict")

        ended = run_to_the_end(declare(lambda run: run.atomic("sell", sell)))

        assert ended.state == "done"
        assert references() == ["after the conflict", "instead", "kept"]

    def test_a_swallowed_database_error_cannot_commit_half(self, declare: Declarations) -> None:
        reserve("taken")

        def sell() -> None:
            reserve("half")
            try:
                reserve("taken")
            except IntegrityError:
                return

        ended = run_to_the_end(declare(lambda run: run.atomic("sell", sell), retry=ONCE))

        assert ended.state == "dead"
        assert references() == ["taken"]
        assert trace(ended) == [("sell", "failed")]

    def test_what_waits_for_the_commit_is_called_after_it(self, declare: Declarations) -> None:
        seen: list[object] = []

        def sell() -> None:
            reserve()
            transaction.on_commit(lambda: seen.append(seen_elsewhere()[0]))

        run_to_the_end(declare(lambda run: run.atomic("sell", sell)))

        assert seen == [["o-1"]]

    def test_marking_the_transaction_for_rollback_stores_nothing(
        self, declare: Declarations
    ) -> None:
        def sell() -> None:
            reserve()
            transaction.set_rollback(True)

        ended = run_to_the_end(declare(lambda run: run.atomic("sell", sell), retry=ONCE))

        assert references() == []
        assert ("sell", "completed") not in trace(ended)
        assert ended.state == "dead"


class TestZombies:
    """The claim is lost while the function runs: another worker has the run now."""

    def sell_while(self, declare: Declarations, meanwhile: Any) -> tuple[Enqueued, list[str]]:
        refused: list[str] = []
        mail = declare(name="tests.mail")

        def body(run: Run[Ping]) -> None:
            def sell() -> None:
                reserve(f"o-{len(refused)}")
                mail.enqueue(Ping("mail"))
                meanwhile(run)

            try:
                run.atomic("sell", sell)
            except JobsError as error:
                refused.append(error.code)
                raise

        queued = start(declare(body, retry=TWICE))
        work()
        return queued, refused

    def test_its_transaction_rolls_back(self, declare: Declarations) -> None:
        def usurp(run: Run[Ping]) -> None:
            def take_over() -> None:
                lapse()
                assert [job.id for job in claim(worker="another").jobs] == [run.job_id]

            second_connection(take_over).result(PATIENCE)

        queued, refused = self.sell_while(declare, usurp)

        assert refused == ["X_JOB_LEASE_LOST"]
        assert (references(), staged()) == ([], [])
        assert (row(queued).state, row(queued).claimed_by) == ("running", "another")
        assert trace(queued) == []

    def test_a_lapsed_claim_that_nobody_took_still_commits(self, declare: Declarations) -> None:
        queued, refused = self.sell_while(
            declare, lambda run: second_connection(lapse).result(PATIENCE)
        )

        assert refused == []
        assert references() == ["o-0"]
        assert row(queued).state == "done"

    def test_an_operator_who_cancels_first_wins(self, declare: Declarations) -> None:
        queued, refused = self.sell_while(
            declare,
            lambda run: second_connection(lambda: cancel_job(str(run.job_id))).result(PATIENCE),
        )

        assert refused == ["X_JOB_LEASE_LOST"]
        assert (references(), staged()) == ([], [])
        assert row(queued).state == "cancelled"

    def test_a_claim_waits_for_a_commit_that_is_under_way(self, declare: Declarations) -> None:
        cancelled: list[Any] = []

        def body(run: Run[Ping]) -> None:
            def committing() -> None:
                # The step is recorded: whoever changes the claim waits for the transaction.
                cancelled.append(second_connection(lambda: cancel_job(str(run.job_id))))
                second_connection(wait_for_blocked).result(PATIENCE)

            def sell() -> None:
                reserve()

            original = run.steps.completed

            def recorded(*args: Any) -> Any:
                answer = original(*args)
                committing()
                return answer

            run.steps.completed = recorded  # type: ignore[method-assign, assignment]
            run.atomic("sell", sell)

        queued = start(declare(body))
        work()

        cancelled[0].result(PATIENCE)
        assert references() == ["o-1"]
        assert trace(queued) == [("sell", "completed")]
        assert row(queued).state == "cancelled"


def test_two_runs_that_deadlock_are_both_through_without_using_an_attempt(
    declare: Declarations,
) -> None:
    first, second = reserve("a"), reserve("b")
    both = threading.Barrier(2)

    def body(run: Run[Ping]) -> None:
        order = [first, second] if run.input.load else [second, first]
        meet = FirstTime(Broken())

        def crossing() -> None:
            LedgerEntry.objects.count()
            Order.objects.select_for_update().get(pk=order[0])
            try:
                meet()
            except Broken:
                both.wait(PATIENCE)
            Order.objects.select_for_update().get(pk=order[1])

        run.atomic("crossing", crossing)

    handle = declare(body, retry=ONCE)
    queued = [start(handle, load=True), start(handle, load=False)]
    work()

    assert [row(one).state for one in queued] == ["done", "done"]
