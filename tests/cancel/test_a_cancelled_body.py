"""A body that was told to stop writes nothing more, whatever told it and whatever it tries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from testproject.shop.models import Order
from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    out_of_time,
    second_connection,
    sql,
    staged,
    wait_until,
)
from tests.steps.runs import ONCE, TWICE, row, start, state, trace, wait_for_state, work, working
from ultimate_jobs import Job, JobsError, Run, publish_event, run_to_completion
from ultimate_jobs.models import Event, Job as JobRow
from ultimate_jobs.operate.verbs import cancel_job

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[[Run[Ping], Job[Ping, object]], object]


def book(reference: str = "late") -> Order:
    return Order.objects.create(reference=reference, amount=Decimal(5))


def enqueue_in_a_transaction(run: Run[Ping], mail: Job[Ping, object]) -> None:
    with transaction.atomic():
        mail.enqueue(Ping("late"))


WRITES: dict[str, Act] = {
    "an insert": lambda run, mail: book(),
    "an update": lambda run, mail: Order.objects.update(amount=Decimal(1)),
    "a delete": lambda run, mail: Order.objects.all().delete(),
    "raw SQL": lambda run, mail: sql("UPDATE shop_order SET amount = 1"),
    "a write in a query": lambda run, mail: sql(
        "WITH w AS (DELETE FROM shop_order RETURNING id) SELECT * FROM w"
    ),
    "many at once": lambda run, mail: Order.objects.bulk_create(
        [Order(reference="late", amount=Decimal(5))]
    ),
    "an enqueue": lambda run, mail: mail.enqueue(Ping("late")),
    "many enqueues": lambda run, mail: mail.enqueue_many([Ping("late")]),
    "an enqueue in a transaction": enqueue_in_a_transaction,
    "an event": lambda run, mail: publish_event("late", {}),
}

STEPS: dict[str, Act] = {
    "a step": lambda run, mail: run.step("late", book),
    "an at-most-once step": lambda run, mail: run.step("late", book, once=True),
    "an atomic step": lambda run, mail: run.atomic("late", lambda: book().pk),
    "a sleep": lambda run, mail: run.sleep("3d"),
    "a wait": lambda run, mail: run.wait_for_event("late", "never", schema=dict),
}


def told_to_stop(declare: Declarations, act: Act) -> tuple[Any, list[Any]]:
    """Run a body that is past its timeout when it acts; answer its row and what it met."""
    met: list[Any] = []
    mail = declare()

    def body(run: Run[Ping]) -> None:
        assert run.signal.wait(PATIENCE)
        try:
            met.append(act(run, mail))
        except JobsError as error:
            met.append(error.code)
            raise

    book("early")
    queued = start(declare(body, retry=ONCE, timeout="50ms"))
    with out_of_time():
        work()
    assert met
    return queued, met


@pytest.mark.parametrize("kind", WRITES)
def test_a_write_raises_the_reason_and_lands_nowhere(declare: Declarations, kind: str) -> None:
    queued, met = told_to_stop(declare, WRITES[kind])

    assert met == ["X_JOB_TIMEOUT"]
    assert nothing_landed()
    assert state(queued) == "dead"


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_is_refused_and_its_function_not_called(declare: Declarations, kind: str) -> None:
    queued, met = told_to_stop(declare, STEPS[kind])

    assert met == ["X_ABORTED"]
    assert nothing_landed()
    assert trace(queued) == []


def nothing_landed() -> bool:
    orders = list(Order.objects.values_list("reference", "amount"))
    assert orders == [("early", Decimal(5))]
    assert JobRow.objects.count() == 1
    assert not staged()
    assert not Event.objects.all()
    return True


def test_a_transaction_that_is_open_at_the_abort_is_undone_at_its_commit(
    declare: Declarations,
) -> None:
    met: list[str] = []
    mail = declare()
    inside = threading.Event()

    def body(run: Run[Ping]) -> None:
        try:
            with transaction.atomic():
                book("late")
                mail.enqueue(Ping("late"))
                publish_event("late", {})
                inside.set()
                assert run.signal.wait(PATIENCE)
        except JobsError as error:
            met.append(error.code)
            raise

    book("early")
    start(declare(body, retry=ONCE, timeout="50ms"))
    with out_of_time(inside.is_set):
        work()

    assert met == ["X_JOB_TIMEOUT"]
    assert nothing_landed()


def test_a_step_that_was_running_at_the_abort_is_not_recorded(declare: Declarations) -> None:
    met: list[str] = []
    inside = threading.Event()

    def slow(run: Run[Ping]) -> None:
        inside.set()
        run.signal.wait(PATIENCE)

    def body(run: Run[Ping]) -> None:
        try:
            run.step("slow", lambda: slow(run))
        except JobsError as error:
            met.append(error.code)
            raise

    queued = start(declare(body, retry=ONCE, timeout="50ms"))
    with out_of_time(inside.is_set):
        work()

    assert met == ["X_ABORTED"]
    assert trace(queued) == []


def test_an_atomic_step_that_was_running_at_the_abort_is_undone(declare: Declarations) -> None:
    met: list[str] = []
    inside = threading.Event()

    def body(run: Run[Ping]) -> None:
        def slow() -> None:
            book("late")
            inside.set()
            run.signal.wait(PATIENCE)

        try:
            run.atomic("slow", slow)
        except JobsError as error:
            met.append(error.code)
            raise

    book("early")
    queued = start(declare(body, retry=ONCE, timeout="50ms"))
    with out_of_time(inside.is_set):
        work()

    assert met == ["X_ABORTED"]
    assert nothing_landed()
    assert trace(queued) == []


class TestWhatIsStillAllowed:
    def test_reading(self, declare: Declarations) -> None:
        _, met = told_to_stop(declare, lambda run, mail: Order.objects.get().reference)

        assert met == ["early"]

    def test_leaving_a_transaction_by_an_error(self, declare: Declarations) -> None:
        met: list[str] = []
        inside = threading.Event()

        def body(run: Run[Ping]) -> None:
            try:
                with transaction.atomic():
                    book("undone")
                    with transaction.atomic():
                        book("undone too")
                        inside.set()
                        assert run.signal.wait(PATIENCE)
                        raise ValueError  # noqa: TRY301 - a body leaves its blocks this way
            except ValueError:
                met.append("rolled back")
            met.append(f"{Order.objects.count()} orders")

        start(declare(body, retry=ONCE, timeout="50ms"))
        with out_of_time(inside.is_set):
            work()

        assert met == ["rolled back", "0 orders"]

    def test_work_that_must_land(self, declare: Declarations) -> None:
        def act(run: Run[Ping], mail: Job[Ping, object]) -> str:
            with run_to_completion(), transaction.atomic():
                book("must land")
                mail.enqueue(Ping("must land"))
                publish_event("landed", {})
            return "landed"

        _, met = told_to_stop(declare, act)

        assert met == ["landed"]
        assert sorted(Order.objects.values_list("reference", flat=True)) == ["early", "must land"]
        assert JobRow.objects.count() + len(staged()) == 2
        assert Event.objects.count() == 1

    def test_and_after_that_block_writes_are_refused_again(self, declare: Declarations) -> None:
        def act(run: Run[Ping], mail: Job[Ping, object]) -> None:
            with run_to_completion():
                book("must land")
            book("late")

        _, met = told_to_stop(declare, act)

        assert met == ["X_JOB_TIMEOUT"]
        assert not Order.objects.filter(reference="late")


class TestReasons:
    def test_a_lost_claim(self, declare: Declarations) -> None:
        met: list[str] = []

        def body(run: Run[Ping]) -> None:
            second_connection(lambda: cancel_job(str(run.job_id))).result(PATIENCE)
            try:
                run.step("late", lambda: None)
            except JobsError as error:
                met.append(error.code)
            try:
                book("late")
            except JobsError as error:
                met.append(error.code)

        queued = start(declare(body))
        work()

        assert met == ["X_JOB_LEASE_LOST", "X_JOB_LEASE_LOST"]
        assert not Order.objects.all()
        assert state(queued) == "cancelled"

    def test_a_cancel_reaches_a_body_that_writes_nothing(self, declare: Declarations) -> None:
        reasons: list[str | None] = []

        def body(run: Run[Ping]) -> None:
            run.signal.wait(PATIENCE)
            reasons.append(run.signal.reason.code if run.signal.reason else None)
            run.signal.raise_if_aborted()

        queued = start(declare(body))
        with working(heartbeat_interval=timedelta(milliseconds=50)):
            wait_for_state(queued, "running")
            cancel_job(str(queued.id))
            wait_until(lambda: reasons, what="the body to hear of it")

        assert reasons == ["X_JOB_LEASE_LOST"]
        assert state(queued) == "cancelled"


def test_the_next_body_on_the_thread_writes_as_it_likes(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        run.signal.wait(PATIENCE)
        run.signal.raise_if_aborted()

    slow = start(declare(body, retry=ONCE, timeout="50ms"))
    with out_of_time(), working(concurrency=1):
        wait_for_state(slow, "dead")
    quick = start(declare(lambda run: book("fine").pk, retry=TWICE))
    work(concurrency=1)

    assert state(quick) == "done"
    assert row(quick).result == Order.objects.get(reference="fine").pk


def test_threads_stuck_past_their_timeout_write_nothing_and_cost_no_capacity(
    declare: Declarations,
) -> None:
    release = threading.Event()
    met: list[str] = []
    mail = declare()

    def deaf(run: Run[Ping]) -> None:
        release.wait(2 * PATIENCE)
        for act in (
            lambda: run.step("late", lambda: None),
            lambda: mail.enqueue(Ping("late")),
            lambda: book("late"),
        ):
            try:
                act()
            except JobsError as error:
                met.append(error.code)

    stuck = declare(deaf, retry=TWICE, timeout="50ms")
    quick = declare()
    slow = [start(stuck) for _ in range(8)]
    fast = [start(quick) for _ in range(100)]
    with working(concurrency=4):
        for one in fast:
            wait_for_state(one, "done")
        for one in slow:
            wait_for_state(one, "dead")
        release.set()
        wait_until(lambda: len(met) == 3 * 16, what="the bodies to come back")

    assert {row(one).attempt for one in slow} == {2}
    assert set(met) == {"X_ABORTED", "X_JOB_TIMEOUT"}
    assert (Order.objects.count(), len(staged()), JobRow.objects.count()) == (0, 0, 108)
    assert all(trace(one) == [] for one in slow)
