"""What is told of a task: the rows of its job, read as Django's ``TaskResult``.

A job row keeps its last error, its worker while it runs, and the instant of its last move. What a
result tells beyond that is stored where it costs the queue nothing: a success has its worker and
how long it took in the job's result, a failed attempt is a step of the run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings as django_settings
from django.db.models import QuerySet
from django.utils.timezone import make_naive

from ultimate_jobs import errors
from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.jsonform import JSONValue
from ultimate_jobs.core.records import Fence
from ultimate_jobs.core.states import JobState, state_of
from ultimate_jobs.errors import InputInvalid, JobCancelled, JobsError
from ultimate_jobs.models import Job as JobRow, JobStep, OutboxEntry
from ultimate_jobs.tasks.calls import CALLS, TaskCall, as_called
from ultimate_jobs.tasks.framework import (
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
)
from ultimate_jobs.tasks.known import found_as

STATUSES = {
    JobState.READY: TaskResultStatus.READY,
    JobState.DELAYED: TaskResultStatus.READY,
    JobState.SUSPENDED: TaskResultStatus.READY,
    JobState.RUNNING: TaskResultStatus.RUNNING,
    JobState.DONE: TaskResultStatus.SUCCESSFUL,
    JobState.FAILED: TaskResultStatus.FAILED,
    JobState.DEAD: TaskResultStatus.FAILED,
    JobState.CANCELLED: TaskResultStatus.FAILED,
}
UNKNOWN_WORKER = "unknown"
"""Stands in ``worker_ids`` for the worker of an attempt that was never heard of again."""

_ATTEMPT = "attempt "
_KIND = re.compile(r"([A-Za-z_][\w.<>]*)(?=[:\s]|$)")
_FRAME = '  File "'
_BY_CODE = {
    kind.code: f"{kind.__module__}.{kind.__qualname__}"
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, JobsError)
}


def get(result_id: object) -> TaskResult[..., Any]:
    """Answer the result of an id, waiting in the outbox, in the queue or ended.

    Raises:
        TaskResultDoesNotExist: no task has this id, or its function is gone.

    """
    try:
        wanted = UUID(str(result_id))
    except ValueError:
        raise TaskResultDoesNotExist(result_id) from None
    for look in (_queued, _staged, _queued):  # the relay may move the row between the looks
        found = look(wanted)
        if found is not None:
            return found
    raise TaskResultDoesNotExist(result_id)


def result(  # noqa: PLR0913 - one for each thing that a result tells
    declared: Task[..., Any],
    call: TaskCall,
    *,
    id: str,  # noqa: A002 - Django's name
    status: TaskResultStatus,
    enqueued_at: datetime | None,
    started_at: datetime | None = None,
    last_attempted_at: datetime | None = None,
    finished_at: datetime | None = None,
    failures: Sequence[TaskError] = (),
    worker_ids: Sequence[str] = (),
) -> TaskResult[..., Any]:
    """Build a result; instants are given with their zone, and told as the project keeps them."""
    return TaskResult(
        task=as_called(declared, call),
        id=id,
        status=status,
        enqueued_at=_told(enqueued_at),
        started_at=_told(started_at),
        finished_at=_told(finished_at),
        last_attempted_at=_told(last_attempted_at),
        args=call.args,
        kwargs=call.kwargs,
        backend=call.backend,
        errors=list(failures),
        worker_ids=list(worker_ids),
    )


def put_on(found: TaskResult[..., Any], **values: Any) -> None:
    """Change a result in place, frozen as it is, like Django's own backends do."""
    for name, value in values.items():
        told = _told(value) if isinstance(value, datetime) else value
        object.__setattr__(found, name, told)


def success(value: Any, *, took: float, worker: str) -> JSONValue:
    """Answer what a success stores as the job's result."""
    return {"value": value, "took": round(took, 6), "worker": worker}


def error_from(text: str) -> TaskError:
    """Read the record of an exception; the rest of its text follows the way of Python's own."""
    kind = _KIND.match(text)
    path = kind[1] if kind else "builtins.Exception"
    path = _BY_CODE.get(path, path if "." in path else f"builtins.{path}")
    head, frame, rest = text.partition(_FRAME)
    if not frame:
        return TaskError(exception_class_path=path, traceback=f"{text}\n")
    trace = f"Traceback (most recent call last):\n{frame}{rest.rstrip()}\n{head.rstrip()}\n"
    return TaskError(exception_class_path=path, traceback=trace)


def step_name(claim: int) -> str:
    """Name the step that records a failed attempt."""
    return f"{_ATTEMPT}{claim}"


def is_held(fence: Fence) -> bool:
    """Answer whether a claim stands."""
    rows = _jobs().filter(id=fence.job_id, claim=fence.claim, claimed_by=fence.worker)
    return rows.filter(state=JobState.RUNNING).exists()


@dataclass(frozen=True, slots=True)
class _Past:
    """An attempt that failed and was recorded."""

    claim: int
    worker: str
    started_at: datetime
    error: str


def _queued(wanted: UUID) -> TaskResult[..., Any] | None:
    row = _jobs().filter(id=wanted).first()
    return None if row is None else _of_job(row)


def _staged(wanted: UUID) -> TaskResult[..., Any] | None:
    entry = OutboxEntry.objects.using(get_settings().database).filter(id=wanted).first()
    if entry is None:
        return None
    if entry.published_at is not None:
        return _queued(entry.job_id or entry.id)
    declared, call = _declared(entry)
    return result(
        declared,
        call,
        id=str(entry.id),
        status=TaskResultStatus.READY,
        enqueued_at=entry.staged_at,
    )


def _of_job(row: JobRow) -> TaskResult[..., Any]:
    declared, call = _declared(row)
    state = state_of(row.state)
    past = _past(row, state)
    worker, last = _latest(row, state, past)
    workers = [one.worker for one in past] + ([worker] if worker else [])
    lost = max(row.attempt - len(workers), 0)
    found = result(
        declared,
        call,
        id=str(row.id),
        status=STATUSES[state],
        enqueued_at=row.created_at,
        started_at=past[0].started_at if past else last,
        last_attempted_at=last,
        finished_at=None
        if STATUSES[state] in (TaskResultStatus.READY, TaskResultStatus.RUNNING)
        else row.updated_at,
        failures=_failures(row, state, past),
        worker_ids=[UNKNOWN_WORKER] * lost + workers,
    )
    if state is JobState.DONE:
        put_on(found, _return_value=_stored(row).get("value"))
    return found


def _declared(row: JobRow | OutboxEntry) -> tuple[Task[..., Any], TaskCall]:
    declared = found_as(row.name)
    if declared is None:
        raise TaskResultDoesNotExist(str(row.id))
    try:
        call: TaskCall = CALLS.parse(row.input)
    except InputInvalid:
        raise TaskResultDoesNotExist(str(row.id)) from None
    return declared.task, call


def _past(row: JobRow, state: JobState) -> list[_Past]:
    """Read the failures that were recorded; a first attempt that did not fail has none."""
    if row.claim == 0 or (row.claim == 1 and state in (JobState.RUNNING, JobState.DONE)):
        return []
    steps = JobStep.objects.using(get_settings().database).filter(run_id=row.run_id)
    return [
        _Past(
            claim=step.position,
            worker=_text(step.output, "worker"),
            started_at=step.started_at,
            error=step.error or "",
        )
        for step in steps.filter(name__startswith=_ATTEMPT).order_by("position")
    ]


def _latest(
    row: JobRow, state: JobState, past: Sequence[_Past]
) -> tuple[str | None, datetime | None]:
    """Answer who made the newest attempt that is not recorded, and when the newest of all began."""
    if state is JobState.RUNNING:
        return row.claimed_by, row.updated_at
    if state is JobState.DONE:
        took = _stored(row).get("took")
        seconds = took if isinstance(took, int | float) else 0.0
        return _text(row.result, "worker"), row.updated_at - timedelta(seconds=seconds)
    return None, past[-1].started_at if past else None


def _failures(row: JobRow, state: JobState, past: Sequence[_Past]) -> list[TaskError]:
    """Answer the errors of recorded attempts, and the row's own when it is none of these."""
    found = [error_from(one.error) for one in past]
    ended = row.claim - 1 if state is JobState.RUNNING else row.claim
    recorded = {one.claim for one in past}
    if state is JobState.CANCELLED:
        found.append(error_from(f"{JobCancelled.code}: {row.last_error or 'No reason was said.'}"))
    elif (
        row.last_error
        and state is not JobState.DONE
        and ended not in recorded
        and row.last_error not in [one.error for one in past[-1:]]
    ):
        found.append(error_from(row.last_error))
    return found


def _stored(row: JobRow) -> dict[str, Any]:
    return row.result if isinstance(row.result, dict) else {}


def _text(stored: Any, key: str) -> str:
    found = stored.get(key) if isinstance(stored, dict) else None
    return found if isinstance(found, str) else UNKNOWN_WORKER


def _told(instant: datetime | None) -> datetime | None:
    if instant is None or instant.tzinfo is None or django_settings.USE_TZ:
        return instant
    return make_naive(instant.astimezone(UTC))


def _jobs() -> QuerySet[JobRow]:
    return JobRow.objects.using(get_settings().database)
