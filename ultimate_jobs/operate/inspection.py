"""Reads for operators, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib.contenttypes.models import ContentType
from django.db.models import (
    Case,
    F,
    Func,
    IntegerField,
    JSONField,
    Model,
    QuerySet,
    When,
)
from django.utils.timezone import get_default_timezone, is_naive, make_aware

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.selection import UNSUCCESSFUL, Selection
from ultimate_jobs.core.states import WAITING, JobState
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.errors import InvariantError, JobUnknown, PageInvalid
from ultimate_jobs.models import Job, JobStep, OutboxEntry
from ultimate_jobs.operate.redaction import Mask, first_words
from ultimate_jobs.operate.search import job_uuid, search

MAX_STEPS_SHOWN = 1_000
MAX_JOB_PAGE = 200
DEFAULT_JOB_PAGE = 100
STAGED = "staged"
"""Shown as the state of a row that still waits in the outbox; no job row has it."""

_NARROW = ("input", "result", "progress")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Selection):
    """Which jobs to list, newest first, and which page of them."""

    limit: int = DEFAULT_JOB_PAGE
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """One page of jobs, newest first.

    ``next`` and ``previous`` are what the pages beside it start from; ``None``: there is none. With
    ``complete`` false the search ended at its window before the page was full: ``next`` goes on
    from there. ``searched`` counts the rows looked at.
    """

    jobs: list[dict[str, Any]]
    next: str | None
    previous: str | None
    searched: int
    complete: bool


def list_jobs(wanted: Filter) -> list[dict[str, Any]]:
    """Answer the jobs of one page; see ``page_of_jobs``."""
    return page_of_jobs(wanted).jobs


def page_of_jobs(wanted: Filter) -> JobPage:
    """Answer one page of jobs, in at most three statements.

    Raises:
        PageInvalid: more than 200 rows, or a cursor that no page of this list gave out.
        InvariantError: ``after`` together with ``before``.

    """
    checked_page(wanted)
    found = search(wanted, limit=wanted.limit, after=wanted.after, before=wanted.before)
    jobs = listed(found.ids)
    return JobPage(
        jobs=jobs,
        next=found.older,
        previous=found.newer,
        searched=found.searched,
        complete=found.complete,
    )


def checked_page(wanted: Filter) -> None:
    """Refuse a page that cannot be.

    Raises:
        PageInvalid: more than 200 rows.
        InvariantError: ``after`` together with ``before``.

    """
    if not 1 <= wanted.limit <= MAX_JOB_PAGE:
        raise PageInvalid(f"A page has 1 to {MAX_JOB_PAGE} rows.")
    if wanted.after is not None and wanted.before is not None:
        raise InvariantError("A page starts after a row or ends before one, not both.")


def listed(ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """Answer what a list shows of these jobs, in this order, those that are gone left out."""
    rows = _readable(ids, _jobs().defer(*_NARROW), _MOST_INPUT_BYTES)
    return [summary(row, _readable_error(row)) for row in rows]


def errors_of(ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """Answer id, name, queue, last error and last move of these jobs, in this order."""
    rows = _readable(ids, _jobs().only(*_OF_ERRORS), _MOST_INPUT_BYTES // 4)
    return [_error(row) for row in rows]


def newest_errors(state: JobState, window: int) -> list[dict[str, Any]]:
    """Answer the same of the jobs in ``state`` among the newest that ended badly, newest first.

    One statement, which looks at ``window`` jobs.
    """
    newest = _jobs().filter(state__in=sorted(UNSUCCESSFUL)).order_by("-created_at", "-id")[:window]
    # Others become NULL here and not in a condition outside, which would be asked of every row.
    wanted = newest.values_list(Case(When(state=state, then=F("id"))), flat=True)
    rows = _with_masks(_jobs().filter(id__in=wanted).only(*_OF_ERRORS), _MOST_INPUT_BYTES // 4)
    return [_error(row) for row in rows.order_by("-created_at", "-id")]


_OF_ERRORS = ("id", "name", "queue", "updated_at", "last_error")


def _error(row: Any) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "name": row.name,
        "queue": row.queue,
        "last_error": _readable_error(row),
        "updated_at": iso(row.updated_at),
    }


_MOST_INPUT_BYTES = 16_384
"""An input that is larger is not read for a list; of the job's error only the type is shown then."""


def _readable(ids: Sequence[UUID], rows: QuerySet[Job], most: int) -> list[Any]:
    """Read jobs, with the inputs that are needed to know what of their errors must not be shown."""
    if not ids:
        return []
    by_id = {row.id: row for row in _with_masks(rows.filter(id__in=ids), most)}
    return [by_id[job] for job in ids if job in by_id]


def _with_masks(rows: QuerySet[Job], most: int) -> QuerySet[Any]:
    small = When(last_error__isnull=False, room__lte=most, then=F("input"))
    size = Func(F("input"), function="pg_column_size", output_field=IntegerField())
    return rows.annotate(room=size).annotate(
        masked_by=Case(small, output_field=JSONField(null=True))
    )


def _readable_error(row: Any) -> str | None:
    if row.last_error is None or row.masked_by is None:
        return first_words(row.last_error)
    return Mask.of(row.name, row.masked_by).text(row.last_error)


def summary(job: Job, error: str | None) -> dict[str, Any]:
    """Answer what a list shows of a job, with its error as it may be shown."""
    return {
        "id": str(job.id),
        "name": job.name,
        "queue": job.queue,
        "state": job.state,
        "standing_by": job.blocked and job.state in WAITING,
        "priority": job.priority,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "run_at": iso(job.run_at),
        "idempotency_key": job.idempotency_key,
        "tenant_id": job.tenant_id,
        "last_error": error,
        "created_at": iso(job.created_at),
        "updated_at": iso(job.updated_at),
    }


def show_job(job_id: str, *, outputs: bool = False) -> dict[str, Any]:
    """Answer everything about one job.

    The id of a row that still waits in the outbox answers that row, with the state ``staged``;
    the id of one that was deduplicated answers the job it was deduplicated onto.

    Args:
        job_id: the id.
        outputs: also answer what the steps stored, redacted like the input.

    Raises:
        JobUnknown: no such id.

    """
    wanted = job_uuid(job_id)
    for look in (_queued, _staged, _queued):  # the relay may move the row between the looks
        found = look(wanted, outputs=outputs)
        if found is not None:
            return found
    raise JobUnknown("No job has this id.")


def step_trace(step: JobStep, mask: Mask, *, outputs: bool = False) -> dict[str, Any]:
    """Answer what a step did; its output only when asked for."""
    ended = step.completed_at
    trace = {
        "name": step.name,
        "status": step.status,
        "attempts": step.attempts,
        "started_at": iso(step.started_at),
        "completed_at": iso(ended),
        "wake_at": iso(step.wake_at),
        "duration_ms": round((ended - step.started_at).total_seconds() * 1000) if ended else None,
        "event": step.event,
        "error": mask.text(step.error),
    }
    return {**trace, "output": mask.value(step.output)} if outputs else trace


def details(job: Job, *, outputs: bool = False) -> dict[str, Any]:
    """Answer everything about a job row."""
    mask = Mask.of(job.name, job.input)
    steps = JobStep.objects.using(get_settings().database).filter(run_id=job.run_id)
    steps = steps.order_by("position")[:MAX_STEPS_SHOWN]
    return {
        **summary(job, mask.text(job.last_error)),
        **_enqueued(job, mask),
        "result": mask.value(job.result),
        "progress": mask.note(job.progress),
        "claimed_by": job.claimed_by,
        "visible_at": iso(job.visible_at),
        "retry_delays": _retry_delays(job),
        "lease_key": mask.text(job.lease_key),
        "concurrency_key": mask.text(_concurrency_key(job)),
        "steps": [step_trace(step, mask, outputs=outputs) for step in steps],
    }


def staged_details(entry: OutboxEntry) -> dict[str, Any]:
    """Answer everything about a row that waits in the outbox."""
    mask = Mask.of(entry.name, entry.input)
    return {
        "id": str(entry.id),
        "name": entry.name,
        "queue": entry.queue,
        "state": STAGED,
        "standing_by": False,
        "priority": entry.priority,
        "attempt": 0,
        "max_attempts": entry.max_attempts,
        "run_at": iso(entry.run_at),
        "idempotency_key": entry.idempotency_key,
        "tenant_id": entry.tenant_id,
        "last_error": mask.text(entry.last_error),
        "created_at": iso(entry.staged_at),
        "updated_at": iso(entry.staged_at),
        **_enqueued(entry, mask),
        "result": None,
        "progress": None,
        "claimed_by": None,
        "visible_at": None,
        "retry_delays": _retry_delays(entry),
        "lease_key": mask.text(entry.lease_key),
        "concurrency_key": mask.text(_concurrency_key(entry)),
        "steps": [],
    }


def _queued(wanted: UUID, *, outputs: bool) -> dict[str, Any] | None:
    job = _jobs().filter(id=wanted).first()
    return None if job is None else details(job, outputs=outputs)


def _staged(wanted: UUID, *, outputs: bool) -> dict[str, Any] | None:
    entry = OutboxEntry.objects.using(get_settings().database).filter(id=wanted).first()
    if entry is None:
        return None
    if entry.published_at is None:
        return staged_details(entry)
    onto = _queued(entry.job_id or entry.id, outputs=outputs)
    if onto is None:
        raise JobUnknown("The job that this id was deduplicated onto is gone.")
    return onto


def _enqueued(row: Job | OutboxEntry, mask: Mask) -> dict[str, Any]:
    return {
        "run_id": str(row.run_id),
        "input": mask.input,
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


def related_of(row: Model) -> tuple[int, str]:
    """Answer how a selection names the object that jobs are about."""
    manager = ContentType.objects.db_manager(get_settings().database)
    return manager.get_for_model(row).pk, str(row.pk)


def iso(instant: datetime | None) -> str | None:
    """Write an instant in UTC, whatever clock the project keeps."""
    if instant is None:
        return None
    return aware(instant).astimezone(UTC).isoformat().replace("+00:00", "Z")


def aware(instant: datetime) -> datetime:
    """Give an instant the zone it is meant in: the rows of a project without zones have none."""
    return make_aware(instant, get_default_timezone()) if is_naive(instant) else instant
