"""Reads for operators, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib.contenttypes.models import ContentType
from django.db.models import Q, QuerySet, Subquery
from django.utils.timezone import get_default_timezone, is_naive, make_aware

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.states import JobState
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.errors import InvariantError, JobUnknown, PageInvalid
from ultimate_jobs.models import Job, JobStep, OutboxEntry
from ultimate_jobs.operate.redaction import operator_input, redacted

MAX_JOB_PAGE = 200
DEFAULT_JOB_PAGE = 100
STAGED = "staged"
"""Shown as the state of a row that still waits in the outbox; no job row has it."""

_NARROW = ("input", "result", "progress")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs to list, newest first."""

    queue: str | None = None
    name: str | None = None
    state: JobState | None = None
    tenant: str | None = None
    limit: int = DEFAULT_JOB_PAGE
    after: str | None = None
    before: str | None = None


def list_jobs(wanted: Filter) -> list[dict[str, Any]]:
    """Answer one page of jobs.

    Raises:
        PageInvalid: more than 200 rows, or a cursor that names no job.
        InvariantError: ``after`` together with ``before``.

    """
    if not 1 <= wanted.limit <= MAX_JOB_PAGE:
        raise PageInvalid(f"A page has 1 to {MAX_JOB_PAGE} rows.")
    if wanted.after is not None and wanted.before is not None:
        raise InvariantError("A page starts after a row or ends before one, not both.")
    rows = _filtered(wanted).defer(*_NARROW)
    if wanted.before is not None:
        newer = rows.filter(_newer(_cursor(wanted, wanted.before)))
        page = list(newer.reverse()[: wanted.limit])[::-1]
    elif wanted.after is not None:
        page = list(rows.filter(_older(_cursor(wanted, wanted.after)))[: wanted.limit])
    else:
        page = list(rows[: wanted.limit])
    return [summary(job) for job in page]


def summary(job: Job) -> dict[str, Any]:
    """Answer what a list shows of a job."""
    return {
        "id": str(job.id),
        "name": job.name,
        "queue": job.queue,
        "state": job.state,
        "priority": job.priority,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "run_at": _iso(job.run_at),
        "idempotency_key": job.idempotency_key,
        "tenant_id": job.tenant_id,
        "last_error": job.last_error,
        "created_at": _iso(job.created_at),
        "updated_at": _iso(job.updated_at),
    }


def show_job(job_id: str) -> dict[str, Any]:
    """Answer everything about one job.

    The id of a row that still waits in the outbox answers that row, with the state ``staged``;
    the id of one that was deduplicated answers the job it was deduplicated onto.

    Raises:
        JobUnknown: no such id.

    """
    wanted = job_uuid(job_id)
    for look in (_queued, _staged, _queued):  # the relay may move the row between the looks
        found = look(wanted)
        if found is not None:
            return found
    raise JobUnknown("No job has this id.")


def step_trace(step: JobStep) -> dict[str, Any]:
    """Answer what a step did, without its output."""
    ended = step.completed_at
    return {
        "name": step.name,
        "status": step.status,
        "attempts": step.attempts,
        "started_at": _iso(step.started_at),
        "completed_at": _iso(ended),
        "wake_at": _iso(step.wake_at),
        "duration_ms": round((ended - step.started_at).total_seconds() * 1000) if ended else None,
        "event": step.event,
        "error": step.error,
    }


def details(job: Job) -> dict[str, Any]:
    """Answer everything about a job row."""
    steps = JobStep.objects.using(get_settings().database).filter(run_id=job.run_id)
    steps = steps.order_by("position")
    handle = registry.get(job.name)
    return {
        **summary(job),
        **_enqueued(job),
        "result": redacted(job.result) if handle is not None else None,
        "progress": job.progress,
        "claimed_by": job.claimed_by,
        "visible_at": _iso(job.visible_at),
        "retry_delays": _retry_delays(job),
        "concurrency_key": _concurrency_key(job),
        "steps": [step_trace(step) for step in steps],
    }


def staged_details(entry: OutboxEntry) -> dict[str, Any]:
    """Answer everything about a row that waits in the outbox."""
    return {
        "id": str(entry.id),
        "name": entry.name,
        "queue": entry.queue,
        "state": STAGED,
        "priority": entry.priority,
        "attempt": 0,
        "max_attempts": entry.max_attempts,
        "run_at": _iso(entry.run_at),
        "idempotency_key": entry.idempotency_key,
        "tenant_id": entry.tenant_id,
        "last_error": entry.last_error,
        "created_at": _iso(entry.staged_at),
        "updated_at": _iso(entry.staged_at),
        **_enqueued(entry),
        "result": None,
        "progress": None,
        "claimed_by": None,
        "visible_at": None,
        "retry_delays": _retry_delays(entry),
        "concurrency_key": _concurrency_key(entry),
        "steps": [],
    }


def state_counts() -> dict[str, int]:
    """Count what waits and runs by state, and what the outbox holds."""
    counts = {state.value: _jobs().filter(state=state).count() for state in _SHOWN}
    waiting = OutboxEntry.objects.using(get_settings().database).filter(published_at=None)
    return {STAGED: waiting.count(), **counts}


_SHOWN = (JobState.READY, JobState.DELAYED, JobState.RUNNING, JobState.SUSPENDED)


def _queued(wanted: UUID) -> dict[str, Any] | None:
    job = _jobs().filter(id=wanted).first()
    return None if job is None else details(job)


def _staged(wanted: UUID) -> dict[str, Any] | None:
    entry = OutboxEntry.objects.using(get_settings().database).filter(id=wanted).first()
    if entry is None:
        return None
    if entry.published_at is None:
        return staged_details(entry)
    onto = _queued(entry.job_id or entry.id)
    if onto is None:
        raise JobUnknown("The job that this id was deduplicated onto is gone.")
    return onto


def _enqueued(row: Job | OutboxEntry) -> dict[str, Any]:
    known = registry.get(row.name) is not None
    return {
        "run_id": str(row.run_id),
        "input": operator_input(row.input, known=known),
        "traceparent": row.traceparent,
        "enqueued_by": row.enqueued_by,
        "related": _related(row),
    }


def _related(row: Job | OutboxEntry) -> dict[str, str] | None:
    if row.related_type_id is None or row.related_id is None:
        return None
    manager = ContentType.objects.db_manager(get_settings().database)
    try:
        kind = manager.get_for_id(row.related_type_id)
    except ContentType.DoesNotExist:
        return {"type": "unknown", "id": row.related_id}
    return {"type": f"{kind.app_label}.{kind.model}", "id": row.related_id}


def _retry_delays(job: Job | OutboxEntry) -> Sequence[float]:
    handle = registry.get(job.name)
    if handle is None:
        return []
    return [wait.total_seconds() for wait in handle.retry.schedule(job.max_attempts)]


def _concurrency_key(job: Job | OutboxEntry) -> str | None:
    handle = registry.get(job.name)
    if handle is None or handle.when_busy is None:
        return None
    try:
        return handle.concurrency_key_for(handle.parse(job.input))
    except Exception:  # noqa: BLE001 - an input of old or an application's function: there is no key
        return None


def _jobs() -> QuerySet[Job]:
    return Job.objects.using(get_settings().database)


def _filtered(wanted: Filter) -> QuerySet[Job]:
    fields = {
        "queue": wanted.queue,
        "name": wanted.name,
        "state": wanted.state,
        "tenant_id": wanted.tenant,
    }
    return _jobs().filter(**{k: v for k, v in fields.items() if v is not None})


def _cursor(wanted: Filter, job_id: str) -> UUID:
    """Accept the id of a row of the list; its state may have changed since its page."""
    try:
        cursor = job_uuid(job_id)
    except JobUnknown:
        cursor = None
    if cursor is None or not _filtered(replace(wanted, state=None)).filter(id=cursor).exists():
        raise PageInvalid("The cursor names no job of this list.")
    return cursor


def _older(cursor: UUID) -> Q:
    instant = _created(cursor)
    return Q(created_at__lte=instant) & (Q(created_at__lt=instant) | Q(id__lt=cursor))


def _newer(cursor: UUID) -> Q:
    instant = _created(cursor)
    return Q(created_at__gte=instant) & (Q(created_at__gt=instant) | Q(id__gt=cursor))


def _created(cursor: UUID) -> Subquery:
    """Leave the instant in the database: local time that is read and sent back may be ambiguous."""
    return Subquery(_jobs().filter(id=cursor).values("created_at"))


def job_uuid(text: str) -> UUID:
    """Read the id of a job.

    Raises:
        JobUnknown: it is none.

    """
    try:
        return UUID(text)
    except ValueError:
        raise JobUnknown("This is no id of a job.") from None


def _iso(instant: datetime | None) -> str | None:
    if instant is None:
        return None
    aware = make_aware(instant, get_default_timezone()) if is_naive(instant) else instant
    return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
