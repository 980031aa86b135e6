"""A worker runs tasks: what their results tell, and who is told when."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db.models.functions import Now

from tests.builders import a_job, out_of_time, sql, work_off
from tests.tasks import functions
from tests.tasks.functions import MODULE, ours
from ultimate_jobs.core.states import JobState
from ultimate_jobs.errors import JobCancelled, JobTimeout, LeaseLost
from ultimate_jobs.models import Job, JobStep
from ultimate_jobs.operate.verbs import cancel_job, retry_job
from ultimate_jobs.tasks.framework import (
    TaskResultStatus,
    task_finished,
    task_started,
)
from ultimate_jobs.testing import jobs_kit

LATER = datetime(2999, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def told() -> Iterator[list[Any]]:
    """Note what receivers of both signals are told inside the block."""
    found: list[Any] = []

    def started(task_result: Any, **kwargs: Any) -> None:
        found.append(("started", task_result.id, task_result.status, task_result.attempts))

    def finished(task_result: Any, **kwargs: Any) -> None:
        error = sys.exc_info()[0]
        found.append(("finished", task_result.id, task_result.status, error and error.__name__))

    task_started.connect(started)
    task_finished.connect(finished)
    try:
        yield found
    finally:
        task_started.disconnect(started)
        task_finished.disconnect(finished)


def run(task: Any, *args: Any, **kwargs: Any) -> Any:
    """Enqueue, work it off, and answer the refreshed result."""
    result = task.enqueue(*args, **kwargs)
    work_off()
    result.refresh()
    return result


@pytest.mark.parametrize("task", [functions.add, functions.aadd])
def test_a_task_succeeds(task: Any) -> None:
    with told() as found:
        result = run(task, 40, b=2)

    assert (result.status, result.is_finished) == (TaskResultStatus.SUCCESSFUL, True)
    assert result.return_value == 42
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    assert (result.attempts, result.errors) == (1, [])
    assert found == [
        ("started", result.id, "RUNNING", 1),
        ("finished", result.id, "SUCCESSFUL", None),
    ]
    again = task.get_result(result.id)
    assert (again.return_value, again.worker_ids) == (42, result.worker_ids)


def test_a_return_value_of_none_is_one() -> None:
    assert run(functions.noop, 1, two=3).return_value is None


@pytest.mark.parametrize(
    ("task", "kind", "message"),
    [
        (functions.raises_value_error, ValueError, "this task failed"),
        (functions.exits, SystemExit, "this task left"),
        (functions.raises_an_interrupt, KeyboardInterrupt, "this task was interrupted"),
        (functions.araises, LookupError, "this coroutine failed"),
    ],
    ids=lambda given: getattr(given, "name", None),
)
def test_a_task_fails(task: Any, kind: type[BaseException], message: str) -> None:
    with told() as found:
        result = run(task)

    assert (result.status, result.is_finished) == (TaskResultStatus.FAILED, True)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    (error,) = result.errors
    assert error.exception_class is kind
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert "functions.py" in error.traceback
    assert error.traceback.endswith(f"{kind.__name__}: {message}\n")
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    assert result.attempts == 1
    assert found == [
        ("started", result.id, "RUNNING", 1),
        ("finished", result.id, "FAILED", kind.__name__),
    ]


def test_what_an_exception_holds_is_in_the_traceback() -> None:
    (error,) = run(functions.raises_what_holds_an_exception).errors

    assert 'ValueError(ValueError("the inner one"))' in error.traceback


def test_an_exception_without_a_message_is_named() -> None:
    (error,) = run(functions.raises_nothing_to_say).errors

    assert error.exception_class is KeyError
    assert error.traceback.endswith("\nKeyError\n")


def test_a_return_value_without_a_json_form_fails_the_task() -> None:
    with told() as found:
        result = run(functions.answers_what_has_no_json)

    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is TypeError
    assert "Unsupported type" in result.errors[0].traceback
    assert [kind for kind, *_ in found] == ["started", "finished"]


@pytest.mark.parametrize("task", [functions.own_id, functions.aown_id])
def test_a_task_that_takes_its_context_gets_it(task: Any) -> None:
    result = run(task)

    assert result.return_value == result.id


def test_the_framework_logs_a_task_from_beginning_to_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, MODULE):
        result = run(functions.noop)
        failed = run(functions.raises_value_error)

    lines = [r for r in caplog.records if r.name == MODULE]
    assert [(r.levelname, r.getMessage().split()[1]) for r in lines] == [
        ("DEBUG", f"id={result.id}"),
        ("INFO", f"id={result.id}"),
        ("INFO", f"id={result.id}"),
        ("DEBUG", f"id={failed.id}"),
        ("INFO", f"id={failed.id}"),
        ("ERROR", f"id={failed.id}"),
    ]
    assert "enqueued" in lines[0].getMessage()
    assert [line.getMessage().split()[-1] for line in lines[1:3]] == [
        "state=RUNNING",
        "state=SUCCESSFUL",
    ]
    exc_info = lines[-1].exc_info
    assert exc_info is not None
    assert exc_info[0] is ValueError


def test_a_receiver_that_raises_fails_no_task(caplog: pytest.LogCaptureFixture) -> None:
    def breaks(**kwargs: Any) -> None:
        raise RuntimeError("this receiver is broken")

    task_started.connect(breaks)
    task_finished.connect(breaks)
    try:
        result = run(functions.add, 1)
    finally:
        task_started.disconnect(breaks)
        task_finished.disconnect(breaks)

    assert result.return_value == 1
    assert "this receiver is broken" in caplog.text


@pytest.mark.django_db
def test_tasks_run_inside_the_transaction_of_a_test() -> None:
    with jobs_kit() as jobs:
        result: Any = functions.second_time_lucky.enqueue("a")

        jobs.run_jobs(failures="keep")
        assert functions.second_time_lucky.get_result(result.id).status == TaskResultStatus.READY
        jobs.clock.advance("1s")
        jobs.run_jobs()
        result.refresh()

    assert (result.attempts, result.return_value["word"]) == (2, "a")


def test_a_higher_priority_goes_first() -> None:
    for word, priority in (("low", -1), ("high", 50), ("middle", 5)):
        functions.noted.using(priority=priority).enqueue(word)

    work_off(concurrency=1)

    assert functions.calls == ["high", "middle", "low"]


def test_a_deferred_task_waits_for_its_time() -> None:
    result = functions.noted.using(run_after=LATER).enqueue("later")
    work_off()
    assert functions.calls == []

    Job.objects.update(run_at=Now())
    work_off()
    result.refresh()

    assert functions.calls == ["later"]
    assert result.task.run_after == LATER
    assert result.return_value == "later"


# Attempts


def test_a_task_is_tried_again_as_it_says() -> None:
    with told() as found:
        result = run(functions.second_time_lucky, "a")

    assert result.return_value == {
        "word": "a",
        "attempt": 2,
        "errors": ["builtins.ConnectionError"],
    }
    assert (result.status, result.attempts) == (TaskResultStatus.SUCCESSFUL, 2)
    assert [error.exception_class for error in result.errors] == [ConnectionError]
    assert result.started_at < result.last_attempted_at <= result.finished_at
    assert [(kind, *rest) for kind, _, *rest in found] == [
        ("started", "RUNNING", 1),
        ("started", "RUNNING", 2),
        ("finished", "SUCCESSFUL", None),
    ]


def test_a_task_without_attempts_left_has_failed_with_every_error() -> None:
    with told() as found:
        result = run(functions.never_lucky)

    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 2)
    assert [error.exception_class for error in result.errors] == [ConnectionError] * 2
    assert [kind for kind, *_ in found] == ["started", "started", "finished"]


def test_a_task_that_waits_for_its_next_attempt_is_ready() -> None:
    result = ours(functions.never_lucky).using(max_attempts=3).enqueue()
    work_off()
    Job.objects.update(state=JobState.READY, attempt=1, claim=1, last_error=None)
    JobStep.objects.exclude(position=1).delete()

    result.refresh()

    assert (result.status, result.is_finished) == (TaskResultStatus.READY, False)
    assert (result.attempts, len(result.errors)) == (1, 1)
    assert result.started_at == result.last_attempted_at
    assert result.finished_at is None


def test_a_function_decides_how_long_to_wait_and_when_to_give_up() -> None:
    with told() as found:
        result = run(functions.given_up_by_its_backoff)

    assert functions.calls == [("ConnectionError", 1, 1), ("ConnectionError", 2, 2)]
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 2)
    assert [error.exception_class for error in result.errors] == [ConnectionError] * 2
    assert found[-1] == ("finished", result.id, "FAILED", "ConnectionError")
    assert len(found) == 3


def test_a_task_that_takes_too_long_has_failed() -> None:
    with out_of_time(functions.begun.is_set), told() as found:
        result = run(functions.takes_too_long)

    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    assert [error.exception_class for error in result.errors] == [JobTimeout]
    assert found == [
        ("started", result.id, "RUNNING", 1),
        ("finished", result.id, "FAILED", "JobTimeout"),
    ]


@pytest.mark.django_db
def test_a_row_that_was_cut_off_names_the_error() -> None:
    job = a_job(
        JobState.DEAD,
        name=functions.noop.module_path,
        input={"args": [], "kwargs": {}, "backend": "default", "using": {}},
        attempt=2,
        claim=2,
        last_error="X_JOB_TIMEOUT: The attempt took longer than 50ms.",
    )

    result = functions.noop.get_result(str(job.id))

    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 2)
    assert [error.exception_class for error in result.errors] == [JobTimeout]
    assert result.worker_ids == ["unknown", "unknown"]


def test_a_task_whose_worker_died_has_failed_with_its_lease() -> None:
    job = a_job(
        JobState.RUNNING,
        name=functions.noop.module_path,
        input={"args": [], "kwargs": {}, "backend": "default", "using": {}},
        idempotency_key="lost",
        max_attempts=1,
    )
    sql("UPDATE x_jobs SET visible_at = now() - interval '1 hour'")

    with told() as found:
        work_off()

    result = functions.noop.get_result(str(job.id))
    assert result.status == TaskResultStatus.FAILED
    assert [error.exception_class for error in result.errors] == [LeaseLost]
    assert found == [("finished", result.id, "FAILED", "LeaseLost")]


def test_a_cancelled_task_has_failed_with_a_named_error() -> None:
    result = functions.noop.enqueue()
    cancel_job(result.id, reason="no longer wanted")

    result.refresh()

    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 0)
    (error,) = result.errors
    assert error.exception_class is JobCancelled
    assert "no longer wanted" in error.traceback


def test_an_operator_lets_a_failed_task_run_again() -> None:
    result = run(functions.raises_value_error)

    retry_job(result.id)
    result.refresh()
    assert result.status == TaskResultStatus.READY
    work_off()
    result.refresh()

    assert (result.status, result.attempts, len(result.errors)) == (
        TaskResultStatus.FAILED,
        2,
        2,
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("state", "status"),
    [
        (JobState.READY, TaskResultStatus.READY),
        (JobState.DELAYED, TaskResultStatus.READY),
        (JobState.SUSPENDED, TaskResultStatus.READY),
        (JobState.RUNNING, TaskResultStatus.RUNNING),
        (JobState.DONE, TaskResultStatus.SUCCESSFUL),
        (JobState.FAILED, TaskResultStatus.FAILED),
        (JobState.DEAD, TaskResultStatus.FAILED),
        (JobState.CANCELLED, TaskResultStatus.FAILED),
    ],
)
def test_every_state_has_a_status(state: JobState, status: TaskResultStatus) -> None:
    job = a_job(
        state,
        name=functions.noop.module_path,
        input={"args": [1], "kwargs": {}, "backend": "default", "using": {}},
        result={"value": 7, "took": 1.5, "worker": "w"} if state is JobState.DONE else None,
    )

    result = functions.noop.get_result(str(job.id))

    assert result.status == status
    assert result.is_finished == (state not in ("ready", "delayed", "suspended", "running"))
    assert (result.started_at is not None) == (state in ("running", "done"))
