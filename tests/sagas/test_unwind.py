"""The unwind: when a run has failed for good, what it did is undone, newest first, once each."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import PATIENCE, Declarations, Ping, at_once, second_connection, wait_until
from tests.sagas.orders import Saga
from tests.steps.runs import (
    ONCE,
    TWICE,
    Calls,
    finish,
    lapse,
    row,
    run_to_the_end,
    start,
    state,
    step_of,
    trace,
    wait_for_state,
    work,
    working,
)
from ultimate_jobs import CancelToken, JobsError, Retry, Run
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.operate.verbs import cancel_job, resolve_step, retry_job

pytestmark = pytest.mark.django_db(transaction=True)

UNDONE = ["release", "refund"]


@pytest.fixture
def saga() -> Saga:
    """Answer a saga whose shipping never works."""
    order = Saga()
    order.broken.add("ship")
    return order


def declared(declare: Declarations, saga: Saga, **options: Any) -> Any:
    def body(run: Run[Ping]) -> str:
        return saga.body(run)

    return declare(body, **{"retry": TWICE, "compensates": True, **options})


class TestOrder:
    def test_the_newest_is_undone_first_and_each_once(
        self, declare: Declarations, saga: Saga
    ) -> None:
        ended = run_to_the_end(declared(declare, saga))

        assert saga.world == ["charge", "reserve", "ship", "ship", *UNDONE]
        assert ended.state == "dead"
        assert str(ended.last_error).startswith("tests.sagas.orders.Shipping")
        assert trace(ended) == [
            ("charge", "completed"),
            ("reserve", "completed"),
            ("ship", "failed"),
            ("unwinding", "completed"),
            ("compensate:reserve", "completed"),
            ("compensate:charge", "completed"),
        ]

    def test_it_is_stored_that_the_run_unwinds_before_anything_is_undone(
        self, declare: Declarations, saga: Saga
    ) -> None:
        stored: list[Any] = []

        def look() -> None:
            queued = JobRow.objects.get()
            stored.append(second_connection(lambda: trace(queued)).result(PATIENCE)[-1])

        saga.meanwhile["release"] = look
        run_to_the_end(declared(declare, saga))

        assert stored == [("unwinding", "completed")]

    def test_what_undoes_a_step_gets_its_stored_output(
        self, declare: Declarations, saga: Saga
    ) -> None:
        run_to_the_end(declared(declare, saga))

        assert saga.outputs["release"] == ["shelf", 7]
        assert saga.outputs["refund"] == {"id": "ch_1"}

    def test_what_undoes_a_step_may_ask_for_a_live_signal(self, declare: Declarations) -> None:
        signals: list[CancelToken] = []

        def refund(output: object, signal: CancelToken) -> None:
            assert not signal.aborted
            signals.append(signal)

        def body(run: Run[Ping]) -> None:
            run.step("charge", lambda: None, compensate=refund)
            raise RuntimeError

        run_to_the_end(declare(body, retry=ONCE, compensates=True))

        assert len(signals) == 1

    def test_a_terminal_error_unwinds_at_once(self, declare: Declarations, saga: Saga) -> None:
        saga.before_ship = lambda run: run.step("charge", lambda: None)

        ended = run_to_the_end(declared(declare, saga))

        assert saga.world == ["charge", "reserve", *UNDONE]
        assert (ended.state, ended.attempt) == ("dead", 1)
        assert "X_STEP_DUPLICATE" in str(ended.last_error)

    def test_a_step_that_did_not_finish_is_not_undone(self, declare: Declarations) -> None:
        saga = Saga()
        saga.broken.add("reserve")

        run_to_the_end(declared(declare, saga))

        assert saga.world == ["charge", "reserve", "reserve", "refund"]

    def test_without_dead_letters_the_job_ends_failed_and_is_undone_too(
        self, declare: Declarations, saga: Saga
    ) -> None:
        retry = Retry(attempts=1, dead_letter=False)

        ended = run_to_the_end(declared(declare, saga, retry=retry))

        assert ended.state == "failed"
        assert saga.world[-2:] == UNDONE

    def test_a_run_with_nothing_to_undo_only_dies(self, declare: Declarations) -> None:
        saga = Saga()
        saga.broken.add("charge")

        ended = run_to_the_end(declared(declare, saga))

        assert saga.world == ["charge", "charge"]
        assert trace(ended) == [("charge", "failed")]

    def test_a_body_without_a_compensating_declaration_may_not_have_one(
        self, declare: Declarations, saga: Saga
    ) -> None:
        ended = run_to_the_end(declared(declare, saga, compensates=False))

        assert saga.world == []
        assert "X_JOB_DECLARATION_INVALID" in str(ended.last_error)

    def test_async_compensations_are_awaited_in_order(self, declare: Declarations) -> None:
        done: list[str] = []

        def undo(name: str) -> Any:
            async def undone(output: object) -> None:
                done.append(f"{name} begins")
                await asyncio.sleep(0)
                done.append(f"{name} ends")

            return undone

        def body(run: Run[Ping]) -> None:
            run.step("charge", lambda: 1, compensate=undo("refund"))
            run.step("reserve", lambda: 2, compensate=undo("release"))
            raise RuntimeError

        ended = run_to_the_end(declare(body, retry=ONCE, compensates=True))

        assert done == ["release begins", "release ends", "refund begins", "refund ends"]
        assert ended.state == "dead"


class TestWhatDoesNotUnwind:
    def test_success(self, declare: Declarations) -> None:
        saga = Saga()

        assert run_to_the_end(declared(declare, saga)).state == "done"

        assert saga.world == ["charge", "reserve", "ship"]

    def test_a_failure_that_is_retried(self, declare: Declarations, saga: Saga) -> None:
        queued = start(declared(declare, saga, retry=Retry(attempts=2, delay="1h")))
        work()

        assert saga.world == ["charge", "reserve", "ship"]
        saga.broken.clear()
        finish(queued)
        assert saga.world == ["charge", "reserve", "ship", "ship"]
        assert state(queued) == "done"

    def test_a_sleep(self, declare: Declarations, saga: Saga) -> None:
        saga.before_ship = lambda run: run.sleep("3d")

        queued = start(declared(declare, saga))
        work()

        assert state(queued) == "suspended"
        assert saga.world == ["charge", "reserve"]

    @pytest.mark.parametrize("asleep", [True, False])
    def test_a_cancel(self, declare: Declarations, saga: Saga, *, asleep: bool) -> None:
        saga.before_ship = (lambda run: run.sleep("3d")) if asleep else cancel_elsewhere

        queued = start(declared(declare, saga))
        work()
        if asleep:
            cancel_job(str(queued.id))
        work()

        assert state(queued) == "cancelled"
        assert saga.world[:2] == ["charge", "reserve"]
        assert not set(UNDONE) & set(saga.world)

    @pytest.mark.parametrize("retry", [ONCE, TWICE], ids=["last attempt", "first of two"])
    def test_a_drain(self, declare: Declarations, saga: Saga, retry: Retry) -> None:
        saga.before_ship = lambda run: run.signal.wait(PATIENCE)

        queued = start(declared(declare, saga, retry=retry))
        with working() as worker:
            wait_until(lambda: "reserve" in saga.world)
            worker.interrupt("SIGTERM")

        assert (state(queued), row(queued).attempt) == ("ready", 0)
        assert saga.world == ["charge", "reserve"]

    def test_a_drain_during_the_unwind_pauses_it(self, declare: Declarations, saga: Saga) -> None:
        queued = start(declared(declare, saga, retry=ONCE))
        with working() as worker:
            saga.meanwhile["release"] = lambda: worker.interrupt("SIGTERM")
            saga.meanwhile["refund"] = lambda: None
            wait_until(lambda: "release" in saga.world)
        finish(queued)

        assert saga.world == ["charge", "reserve", "ship", *UNDONE]
        assert str(row(queued).last_error).startswith("tests.sagas.orders.Shipping")


def cancel_elsewhere(run: Run[Ping]) -> None:
    second_connection(lambda: cancel_job(str(run.job_id))).result(PATIENCE)


class TestMargin:
    def test_the_row_carries_two_starts_more_than_the_declared_attempts(
        self, declare: Declarations, saga: Saga
    ) -> None:
        queued = start(declared(declare, saga, retry=Retry(attempts=3)))

        assert row(queued).max_attempts == 5

    def test_the_body_is_told_which_attempt_is_its_last(self, declare: Declarations) -> None:
        finals: list[bool] = []

        def body(run: Run[Ping]) -> None:
            finals.append(run.final_attempt)
            raise RuntimeError

        run_to_the_end(declare(body, retry=TWICE, compensates=True))

        assert finals == [False, True]

    def test_a_crash_on_the_last_attempt_is_offered_again_and_unwound(
        self, declare: Declarations, saga: Saga
    ) -> None:
        handle = declared(declare, saga, retry=ONCE)
        queued = start(handle)
        saga.before_ship = usurp_and_lapse

        work()
        assert saga.world == ["charge", "reserve"]
        saga.before_ship = lambda run: None
        finish(queued)

        assert saga.world == ["charge", "reserve", *UNDONE]
        assert state(queued) == "dead"
        assert "X_JOB_LEASE_LOST" in str(row(queued).last_error)

    def test_a_last_attempt_that_ran_out_of_time_is_unwound_by_the_next_claim(
        self, declare: Declarations, saga: Saga
    ) -> None:
        times = [PATIENCE]
        saga.before_ship = lambda run: run.signal.wait(times.pop() if times else 0)

        ended = run_to_the_end(declared(declare, saga, retry=ONCE, timeout="300ms"))

        assert saga.world == ["charge", "reserve", *UNDONE]
        assert (ended.state, ended.attempt) == ("dead", 2)
        assert "X_JOB_TIMEOUT" in str(ended.last_error)


def usurp_and_lapse(run: Run[Ping]) -> None:
    """Take the row from the body at work, as the claim after a crash does, and die as well."""

    def take_over() -> None:
        JobRow.objects.filter(id=run.job_id).update(claimed_by="a dead worker")
        lapse()

    second_connection(take_over).result(PATIENCE)
    raise RuntimeError("what a zombie raises is heard by nobody")


class TestCrashes:
    """The worker dies during the unwind: the next claim continues, and never begins again."""

    @pytest.mark.parametrize(
        ("at", "world"),
        [
            ("ship", ["charge", "reserve", "ship", *UNDONE]),
            ("release", ["charge", "reserve", "ship", "release", *UNDONE]),
            ("refund", ["charge", "reserve", "ship", *UNDONE, "refund"]),
        ],
    )
    def test_only_the_effect_that_was_not_recorded_is_repeated(
        self, declare: Declarations, saga: Saga, at: str, world: list[str]
    ) -> None:
        died: list[str] = []

        def die() -> None:
            if not died:
                died.append(at)

                def take_over() -> None:
                    JobRow.objects.update(claimed_by="a dead worker")
                    lapse()

                second_connection(take_over).result(PATIENCE)

        saga.meanwhile[at] = die
        queued = start(declared(declare, saga, retry=ONCE))
        finish(queued)

        assert saga.world == world
        assert state(queued) == "dead"

    def test_two_operators_who_retry_in_one_second_change_nothing(
        self, declare: Declarations, saga: Saga
    ) -> None:
        handle = declared(declare, saga)
        ended = run_to_the_end(handle)

        def retry() -> str:
            try:
                retry_job(str(ended.id))
            except JobsError as error:
                return error.code
            return "accepted"

        answers = at_once(retry, retry)
        finish(ended)

        assert sorted(answers) == ["X_JOB_NOT_REQUEUEABLE", "accepted"]
        assert saga.world == ["charge", "reserve", "ship", "ship", *UNDONE]
        assert str(row(ended).last_error).startswith("tests.sagas.orders.Shipping")

    def test_a_retry_during_the_unwind_is_refused(self, declare: Declarations, saga: Saga) -> None:
        answers: list[str] = []

        def retry() -> None:
            try:
                second_connection(lambda: retry_job(str(JobRow.objects.get().id))).result(PATIENCE)
            except JobsError as error:
                answers.append(error.code)

        saga.meanwhile["release"] = retry
        run_to_the_end(declared(declare, saga))

        assert answers == ["X_JOB_NOT_REQUEUEABLE"]
        assert saga.world == ["charge", "reserve", "ship", "ship", *UNDONE]

    def test_a_cancel_during_the_unwind_stops_it_and_a_retry_resumes_it(
        self, declare: Declarations, saga: Saga
    ) -> None:
        saga.meanwhile["release"] = lambda: second_connection(
            lambda: cancel_job(str(JobRow.objects.get().id))
        ).result(PATIENCE)

        queued = start(declared(declare, saga, retry=ONCE))
        work()
        assert state(queued) == "cancelled"
        assert saga.world == ["charge", "reserve", "ship", "release"]

        saga.meanwhile.clear()
        saga.broken.clear()
        retry_job(str(queued.id))
        finish(queued)

        assert saga.world == ["charge", "reserve", "ship", "release", *UNDONE]
        assert state(queued) == "dead"
        assert str(row(queued).last_error).startswith("tests.sagas.orders.Shipping")


class TestRefunding:
    """What undoes a step fails itself."""

    def test_it_is_tried_again_in_the_margin_and_then_the_job_is_dead_naming_it(
        self, declare: Declarations, saga: Saga
    ) -> None:
        saga.broken.add("refund")

        ended = run_to_the_end(declared(declare, saga))

        assert saga.world == ["charge", "reserve", "ship", "ship", *UNDONE, "refund", "refund"]
        assert (ended.state, ended.attempt) == ("dead", 4)
        assert "X_JOB_COMPENSATION_FAILED: The compensation of the step 'charge' failed" in str(
            ended.last_error
        )
        assert "Refunding: refund does not work" in str(ended.last_error)
        assert "Shipping: ship does not work" in str(ended.last_error)
        assert step_of(ended, "compensate:charge").status == "failed"

    def test_after_a_repair_and_a_retry_only_that_one_runs(
        self, declare: Declarations, saga: Saga
    ) -> None:
        saga.broken.add("refund")
        ended = run_to_the_end(declared(declare, saga))
        saga.world.clear()
        saga.broken.discard("refund")

        retry_job(str(ended.id))
        work()

        assert saga.world == ["refund"]
        assert state(ended) == "dead"
        assert str(row(ended).last_error).startswith("tests.sagas.orders.Shipping")
        assert "X_JOB_COMPENSATION_FAILED" not in str(row(ended).last_error)

    def test_it_may_recover_by_itself(self, declare: Declarations, saga: Saga) -> None:
        saga.broken.add("refund")
        saga.meanwhile["refund"] = lambda: (
            saga.broken.discard("refund") if saga.world.count("refund") == 2 else None
        )

        ended = run_to_the_end(declared(declare, saga))

        assert saga.world == ["charge", "reserve", "ship", "ship", *UNDONE, "refund"]
        assert str(ended.last_error).startswith("tests.sagas.orders.Shipping")

    def test_the_original_error_is_readable_while_it_is_tried_again(
        self, declare: Declarations, saga: Saga
    ) -> None:
        saga.broken.add("refund")
        queued = start(declared(declare, saga, retry=Retry(attempts=1, delay=timedelta(hours=1))))

        work()

        assert state(queued) == "ready"
        assert "Shipping: ship does not work" in str(row(queued).last_error)
        assert "Refunding" in str(row(queued).last_error)


class TestDoubt:
    """An at-most-once step with a compensation, and nobody knows whether it took effect."""

    def test_the_unwind_halts_until_somebody_says(self, declare: Declarations) -> None:
        saga = Saga(once=True)
        saga.broken.add("charge")

        ended = run_to_the_end(declared(declare, saga))

        assert saga.world == ["charge"]
        assert (ended.state, ended.attempt) == ("dead", 2)
        assert "X_JOB_COMPENSATION_FAILED: The outcome of the step 'charge' is not known" in str(
            ended.last_error
        )
        assert "X_STEP_OUTCOME_UNKNOWN" in str(ended.last_error)

    def test_with_one_attempt_it_halts_as_well(self, declare: Declarations) -> None:
        saga = Saga(once=True)
        saga.broken.add("charge")

        ended = run_to_the_end(declared(declare, saga, retry=ONCE))

        assert "X_JOB_COMPENSATION_FAILED: The outcome of the step 'charge' is not known" in str(
            ended.last_error
        )

    def test_it_ran_so_a_retry_refunds(self, declare: Declarations) -> None:
        saga = Saga(once=True)
        saga.broken.add("charge")
        ended = run_to_the_end(declared(declare, saga))

        resolve_step(str(ended.id), "charge", ran=True, output='{"id": "ch_9"}')
        retry_job(str(ended.id))
        work()

        assert saga.world == ["charge", "refund"]
        assert saga.outputs["refund"] == {"id": "ch_9"}
        assert state(ended) == "dead"
        assert "X_JOB_COMPENSATION_FAILED" not in str(row(ended).last_error)

    def test_it_did_not_run_so_a_retry_has_nothing_to_refund(self, declare: Declarations) -> None:
        saga = Saga(once=True)
        saga.broken.add("charge")
        ended = run_to_the_end(declared(declare, saga))

        resolve_step(str(ended.id), "charge", ran=False)
        retry_job(str(ended.id))
        work()

        assert saga.world == ["charge"]
        assert state(ended) == "dead"
        assert "X_JOB_COMPENSATION_FAILED" not in str(row(ended).last_error)


def test_what_was_done_after_a_failure_that_the_body_caught_is_undone_by_a_later_claim_as_well(
    declare: Declarations,
) -> None:
    world = Calls()
    breaks = [False, True]

    def fail() -> None:
        raise ConnectionError

    def body(run: Run[Ping]) -> None:
        with suppress(Exception):
            run.step("greet", fail)
        run.step("charge", world("charge"), compensate=lambda output: refund())
        raise RuntimeError

    def refund() -> None:
        world.append("refund")
        if breaks.pop():
            raise ConnectionError

    ended = run_to_the_end(declare(body, retry=ONCE, compensates=True))

    assert world == ["charge", "refund", "refund"]
    assert ended.state == "dead"
    assert "X_JOB_COMPENSATION_FAILED" not in str(ended.last_error)


class TestChangedBodies:
    def test_a_replay_that_does_not_reach_a_compensated_step_is_refused_not_lost(
        self, declare: Declarations, saga: Saga
    ) -> None:
        saga.broken.add("refund")
        reach = [True]

        def body(run: Run[Ping]) -> None:
            if reach[0]:
                saga.body(run)
            raise RuntimeError("the body was changed")

        queued = start(declare(body, retry=ONCE, compensates=True))
        work()
        reach[0] = False
        finish(queued)

        assert state(queued) == "dead"
        assert "X_JOB_COMPENSATION_FAILED: The replay did not reach" in str(row(queued).last_error)
        assert "'charge'" in str(row(queued).last_error)

        reach[0] = True
        saga.broken.clear()
        saga.world.clear()
        retry_job(str(queued.id))
        finish(queued)

        assert saga.world == ["refund"]

    @pytest.mark.counts_claims
    def test_a_last_attempt_that_fails_before_its_steps_replay_is_unwound_by_the_next_claim(
        self, declare: Declarations, saga: Saga
    ) -> None:
        starts: list[int] = []

        def body(run: Run[Ping]) -> None:
            starts.append(run.attempt)
            if starts == [1, 2]:
                raise RuntimeError("no step was reached")
            saga.body(run)

        ended = run_to_the_end(declare(body, retry=TWICE, compensates=True))

        assert saga.world == ["charge", "reserve", "ship", *UNDONE]
        assert ended.state == "dead"
        assert str(ended.last_error).startswith("RuntimeError: no step was reached")

    def test_nothing_new_begins_while_a_run_unwinds(
        self, declare: Declarations, saga: Saga
    ) -> None:
        saga.broken.add("refund")
        calls = Calls()

        def body(run: Run[Ping]) -> None:
            saga.body(run)

        queued = start(declare(body, retry=ONCE, compensates=True))
        work()
        saga.broken.discard("ship")
        saga.broken.discard("refund")
        saga.before_ship = lambda run: run.step("added", calls("added"))
        finish(queued)

        assert calls == []
        assert saga.world == ["charge", "reserve", "ship", *UNDONE, "refund"]
        assert state(queued) == "dead"

    def test_a_retry_from_a_step_cannot_go_forward_over_what_was_undone(
        self, declare: Declarations, saga: Saga
    ) -> None:
        ended = run_to_the_end(declared(declare, saga))
        saga.world.clear()
        saga.broken.clear()

        with pytest.raises(JobsError) as refused:
            retry_job(str(ended.id), from_step="ship")

        assert refused.value.code == "X_JOB_NOT_REQUEUEABLE"
        assert state(ended) == "dead"

    def test_a_retry_from_the_first_undone_step_does_it_all_again(
        self, declare: Declarations, saga: Saga
    ) -> None:
        ended = run_to_the_end(declared(declare, saga))
        saga.world.clear()
        saga.broken.clear()

        retry_job(str(ended.id), from_step="charge")
        work()

        assert saga.world == ["charge", "reserve", "ship"]
        assert state(ended) == "done"


def test_an_ending_is_announced_once_after_the_unwind(declare: Declarations, saga: Saga) -> None:
    told: list[tuple[str, str, list[str]]] = []

    def settled(event: Any) -> None:
        told.append((str(event.outcome), str(event.error), list(saga.world)))

    queued = start(declared(declare, saga, on_settled=settled))
    with working():
        wait_for_state(queued, "dead")
        wait_until(lambda: told, what="the hook")

    ((outcome, error, world),) = told
    assert outcome == "dead-lettered"
    assert error.startswith("tests.sagas.orders.Shipping")
    assert world[-2:] == UNDONE
