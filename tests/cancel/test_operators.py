"""An operator's cancel: accepted, it is final; refused, the job had ended."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    a_job,
    second_connection,
    sql,
    wait_until,
)
from tests.steps.runs import (
    ONCE,
    TWICE,
    Calls,
    FirstTime,
    make_due,
    row,
    start,
    state,
    trace,
    wait_for_state,
    work,
    working,
)
from ultimate_jobs import JobsError, Retry, Run, publish_event
from ultimate_jobs.core.states import TERMINAL, JobState
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.operate.verbs import cancel_job, retry_job

pytestmark = pytest.mark.django_db(transaction=True)


def cancelled(queued: Any) -> bool:
    try:
        cancel_job(str(queued.id))
    except JobsError as error:
        assert error.code == "X_JOB_NOT_CANCELLABLE"  # noqa: PT017 - any other is a failure
        return False
    return True


class TestResting:
    def test_a_job_that_waits_for_its_retry_is_never_tried_again(
        self, declare: Declarations
    ) -> None:
        fails = FirstTime()
        queued = start(declare(lambda run: fails(), retry=Retry(attempts=2, delay="1h")))
        work()

        assert cancelled(queued)
        make_due()
        work()

        assert (state(queued), row(queued).attempt) == ("cancelled", 1)
        assert "the first attempt fails" in str(row(queued).last_error)

    def test_a_run_that_sleeps_never_wakes(self, declare: Declarations) -> None:
        queued = start(declare(lambda run: run.sleep("3d")))
        work()

        assert cancelled(queued)
        make_due()
        work()

        assert state(queued) == "cancelled"

    def test_a_run_that_waits_for_an_event_never_gets_it(self, declare: Declarations) -> None:
        queued = start(declare(lambda run: run.wait_for_event("payment", "paid", schema=dict)))
        work()

        assert cancelled(queued)
        assert publish_event("paid", {}) == 0
        make_due()
        work()

        assert state(queued) == "cancelled"
        assert trace(queued) == [("payment", "waiting")]

    def test_the_reason_is_kept(self) -> None:
        queued = a_job()

        cancel_job(str(queued.id), "boom\x00 and \ud800")

        assert row(queued).last_error == "boom\\x00 and \\ud800"

    def test_twice_is_refused(self) -> None:
        queued = a_job()

        assert cancelled(queued)
        assert not cancelled(queued)

    @pytest.mark.parametrize("ended", sorted(TERMINAL))
    def test_a_job_that_has_ended_keeps_its_ending(self, ended: JobState) -> None:
        queued = a_job(ended, last_error="as it was")

        assert not cancelled(queued)
        assert (state(queued), row(queued).last_error) == (ended, "as it was")


class TestRunning:
    def test_its_ending_is_not_written_and_nothing_is_retried(self, declare: Declarations) -> None:
        def body(run: Run[Ping]) -> None:
            assert second_connection(lambda: cancelled(JobRow.objects.get())).result(PATIENCE)
            raise RuntimeError("this attempt would be retried")

        queued = start(declare(body, retry=TWICE))
        work()
        make_due()
        work()

        assert (state(queued), row(queued).last_error) == ("cancelled", None)

    def test_its_key_is_free_at_once(self, declare: Declarations) -> None:
        again: list[Any] = []
        handle = declare(lambda run: again.append(enqueue_again(run)) if not again else None)

        def enqueue_again(run: Run[Ping]) -> bool:
            def work() -> bool:
                assert cancelled(JobRow.objects.get())
                return handle.enqueue(Ping(run.input.key)).deduped

            return second_connection(work).result(PATIENCE)

        queued = start(handle)
        work()

        assert again == [False]
        assert state(queued) == "cancelled"
        assert JobRow.objects.exclude(id=queued.id).get().state == "done"

    def test_a_suspension_that_was_under_way_parks_nothing(self, declare: Declarations) -> None:
        def body(run: Run[Ping]) -> None:
            assert second_connection(lambda: cancelled(JobRow.objects.get())).result(PATIENCE)
            run.sleep("3d")

        queued = start(declare(body))
        work()

        assert state(queued) == "cancelled"
        assert trace(queued) == []

    def test_a_retry_is_refused_and_the_body_runs_once(self, declare: Declarations) -> None:
        calls, answers = Calls(), Calls()

        def body(run: Run[Ping]) -> None:
            calls.append(run.input.key)

            def retry() -> None:
                try:
                    retry_job(str(run.job_id))
                except JobsError as error:
                    answers.append(error.code)

            second_connection(retry).result(PATIENCE)

        handle = declare(body)
        queued = [start(handle) for _ in range(10)]
        work()

        assert answers == ["X_JOB_NOT_REQUEUEABLE"] * 10
        assert len(calls) == 10
        assert {state(one) for one in queued} == {"done"}

    def test_a_cancelled_run_can_be_retried_and_keeps_the_steps_it_had_stored(
        self, declare: Declarations
    ) -> None:
        calls = Calls()
        cancels = FirstTime()

        def body(run: Run[Ping]) -> None:
            run.step("first", calls("first"))
            try:
                cancels()
            except RuntimeError:
                second_connection(lambda: cancelled(JobRow.objects.get())).result(PATIENCE)
            run.step("second", calls("second"))

        queued = start(declare(body, retry=ONCE))
        work()
        retry_job(str(queued.id))
        work()

        assert calls == ["first", "second", "second"]
        assert state(queued) == "done"


def test_cancels_at_random_moments_have_one_winner_each(declare: Declarations) -> None:
    dice = random.Random(21)  # noqa: S311 - a test that can be repeated
    pause = threading.Event()
    lengths: dict[str, float] = {}

    def body(run: Run[Ping]) -> None:
        pause.wait(lengths.get(run.input.key, 0))
        run.step("late", lambda: None)
        if run.attempt == 1 and run.input.load:
            raise RuntimeError("to be retried")

    handle = declare(body, retry=TWICE)
    queued = [start(handle, load=number % 3 == 0) for number in range(200)]
    for one in queued:
        lengths[row(one).input["key"]] = dice.uniform(0, 0.02)
    late, *others = queued
    early = others.pop()
    answers = {early.id: cancelled(early)}
    with working(concurrency=8) as worker:
        wait_for_state(late, "done")
        for one in (late, *others):
            pause.wait(dice.uniform(0, 0.004))
            answers[one.id] = cancelled(one)
        wait_until(lambda: not JobRow.objects.exclude(state__in=TERMINAL), what="all to end")

    assert {one.id: state(one) for one in queued} == {
        id_: "cancelled" if yes else "done" for id_, yes in answers.items()
    }
    assert (answers[early.id], answers[late.id]) == (True, False)
    assert worker.stats.abandoned == 0
    assert not sql("SELECT FROM x_jobs WHERE claimed_by IS NOT NULL AND state = 'cancelled'")
