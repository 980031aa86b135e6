"""At most once: a step that may not run twice stops for an operator when nobody knows its end."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.builders import PATIENCE, WORKER, Declarations, Ping, claim, second_connection
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
from ultimate_jobs import Enqueued, JobsError, Run
from ultimate_jobs.core.records import Fence, StepWrite
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import Job as JobRow, JobStep
from ultimate_jobs.operate.verbs import resolve_step, retry_job

pytestmark = pytest.mark.django_db(transaction=True)


def in_doubt(declare: Declarations, calls: Calls, **options: Any) -> JobRow:
    """Answer a run whose at-most-once step raised: its effect may have taken place."""
    fails = FirstTime()

    def charge() -> str:
        calls.append("charge")
        fails()
        return "ch_2"

    def body(run: Run[Ping]) -> object:
        run.step("before", calls("before"))
        answer = run.step("charge", charge, once=True)
        run.step("after", calls("after"))
        return answer

    return run_to_the_end(declare(body, **{"retry": TWICE, **options}))


def test_its_beginning_is_committed_before_the_function_is_called(declare: Declarations) -> None:
    seen: list[str] = []

    def charge() -> None:
        found = second_connection(lambda: JobStep.objects.get(name="charge").status)
        seen.append(found.result(PATIENCE))

    run_to_the_end(declare(lambda run: run.step("charge", charge, once=True)))

    assert seen == ["started"]


def test_it_costs_two_statements(declare: Declarations) -> None:
    start(declare(lambda run: run.step("charge", lambda: None, once=True)))

    with exchanges() as seen:
        work()

    assert seen.count("STEP_PUT") == 2


def test_one_that_is_done_replays(declare: Declarations) -> None:
    calls, fails = Calls(), FirstTime()

    def body(run: Run[Ping]) -> object:
        answer = run.step("charge", calls("charge", "ch_1"), once=True)
        fails()
        return answer

    ended = run_to_the_end(declare(body, retry=TWICE))

    assert (ended.state, ended.result) == ("done", "ch_1")
    assert calls == ["charge"]


def test_one_that_raised_stops_the_job_on_the_next_attempt(declare: Declarations) -> None:
    calls = Calls()

    ended = in_doubt(declare, calls)

    assert (ended.state, ended.attempt) == ("dead", 2)
    assert "X_STEP_OUTCOME_UNKNOWN: The step 'charge'" in str(ended.last_error)
    assert calls == ["before", "charge"]


def test_one_whose_worker_died_stops_the_job_on_the_next_claim(declare: Declarations) -> None:
    calls = Calls()

    def body(run: Run[Ping]) -> None:
        run.step("charge", calls("charge"), once=True)

    queued = start(declare(body))
    begin_and_die(queued, "charge")
    work()

    assert row(queued).state == "dead"
    assert "X_STEP_OUTCOME_UNKNOWN" in str(row(queued).last_error)
    assert calls == []


def test_its_retries_are_the_jobs_so_its_own_policy_does_not_repeat_it(
    declare: Declarations,
) -> None:
    calls = Calls()

    def charge() -> None:
        calls.append("charge")
        raise RuntimeError("who knows")

    def body(run: Run[Ping]) -> None:
        run.step("charge", charge, once=True, retry=TWICE)

    ended = run_to_the_end(declare(body, retry=TWICE))

    assert calls == ["charge"]
    assert "X_STEP_OUTCOME_UNKNOWN" in str(ended.last_error)


class TestResolving:
    def test_it_ran_and_answered_so_the_run_goes_on_with_that(self, declare: Declarations) -> None:
        calls = Calls()
        ended = in_doubt(declare, calls)

        resolve_step(str(ended.id), "charge", ran=True, output='{"id": "ch_1"}')
        retry_job(str(ended.id))
        work()

        assert row(ended).state == "done"
        assert row(ended).result == {"id": "ch_1"}
        assert calls == ["before", "charge", "after"]

    def test_it_ran_and_answered_nothing(self, declare: Declarations) -> None:
        ended = in_doubt(declare, Calls())

        resolve_step(str(ended.id), "charge", ran=True)
        retry_job(str(ended.id))
        work()

        assert (row(ended).state, row(ended).result) == ("done", None)

    def test_it_did_not_run_so_it_runs_now(self, declare: Declarations) -> None:
        calls = Calls()
        ended = in_doubt(declare, calls)

        resolve_step(str(ended.id), "charge", ran=False)
        retry_job(str(ended.id))
        work()

        assert (row(ended).state, row(ended).result) == ("done", "ch_2")
        assert calls == ["before", "charge", "charge", "after"]

    def test_a_retry_without_it_stops_at_the_same_place(self, declare: Declarations) -> None:
        calls = Calls()
        ended = in_doubt(declare, calls)

        retry_job(str(ended.id))
        work()

        assert row(ended).state == "dead"
        assert calls == ["before", "charge"]

    def test_from_the_command_line(self, declare: Declarations) -> None:
        ended = in_doubt(declare, Calls())

        shown = jobs("resolve-step", ended, "charge", "--ran", "--output", '{"id": "ch_1"}')
        jobs("retry", ended)
        work()

        assert {"name": "charge", "status": "completed"}.items() <= shown["steps"][1].items()
        assert row(ended).result == {"id": "ch_1"}

    def test_the_command_line_takes_back_a_step_that_did_not_run(
        self, declare: Declarations
    ) -> None:
        ended = in_doubt(declare, Calls())

        jobs("resolve-step", ended, "charge", "--not-ran")

        assert trace(ended) == [("before", "completed")]

    @pytest.mark.parametrize("step", ["before", "never heard of", "unwinding"])
    def test_a_step_that_is_not_in_doubt_is_refused(self, declare: Declarations, step: str) -> None:
        ended = in_doubt(declare, Calls())

        with pytest.raises(JobsError) as refused:
            resolve_step(str(ended.id), step, ran=False)

        assert refused.value.code == "X_STEP_NOT_RESOLVABLE"
        assert trace(ended) == [("before", "completed"), ("charge", "failed")]

    def test_twice_is_refused(self, declare: Declarations) -> None:
        ended = in_doubt(declare, Calls())
        resolve_step(str(ended.id), "charge", ran=True, output="1")

        with pytest.raises(JobsError) as refused:
            resolve_step(str(ended.id), "charge", ran=True, output="2")

        assert refused.value.code == "X_STEP_NOT_RESOLVABLE"
        assert step_of(ended, "charge").output == 1

    def test_while_the_job_runs_is_refused(self, declare: Declarations) -> None:
        answers: list[str] = []

        def charge() -> None:
            def resolve() -> None:
                resolve_step(str(JobRow.objects.get().id), "charge", ran=True)

            try:
                second_connection(resolve).result(PATIENCE)
            except JobsError as error:
                answers.append(error.code)

        ended = run_to_the_end(declare(lambda run: run.step("charge", charge, once=True)))

        assert answers == ["X_STEP_NOT_RESOLVABLE"]
        assert ended.state == "done"

    @pytest.mark.parametrize("output", ["{", "NaN", "Infinity", '"\\u0000"', "1e999"])
    def test_an_output_that_cannot_be_stored_is_refused(
        self, declare: Declarations, output: str
    ) -> None:
        ended = in_doubt(declare, Calls())

        with pytest.raises(JobsError) as refused:
            resolve_step(str(ended.id), "charge", ran=True, output=output)

        assert refused.value.code == "X_INVARIANT"
        with pytest.raises(CommandError, match="X_INVARIANT"):
            call_command("jobs", "resolve-step", str(ended.id), "charge", "--ran", output=output)


def begin_and_die(queued: Enqueued, step: str) -> None:
    """Claim a job, begin an at-most-once step, and let the claim lapse."""
    (held,) = claim(room=1).jobs
    fence = Fence(job_id=held.id, run_id=held.run_id, claim=held.claim, worker=WORKER)
    began = StepWrite(name=step, position=0, status=StepStatus.STARTED, attempts=1)
    assert get_driver().steps.put(fence, began)
    lapse()


def jobs(verb: str, ended: JobRow, *words: str) -> dict[str, Any]:
    out = StringIO()
    call_command("jobs", verb, str(ended.id), *words, "--json", stdout=out)
    shown: dict[str, Any] = json.loads(out.getvalue())
    return shown


def test_with_one_attempt_a_failure_is_the_end_and_says_what_was_raised(
    declare: Declarations,
) -> None:
    ended = in_doubt(declare, Calls(), retry=ONCE)

    assert str(ended.last_error).startswith("RuntimeError: the first attempt fails")
    assert trace(ended) == [("before", "completed"), ("charge", "failed")]
