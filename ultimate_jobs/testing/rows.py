"""The rows that a test asks about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import Q, QuerySet

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.core.states import LIVE, WAITING, JobState
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.models import Job, JobStep, OutboxEntry
from ultimate_jobs.operate.inspection import aware

I = TypeVar("I")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedJob(Generic[I]):
    """A job that was enqueued and has not ended."""

    id: UUID
    run_id: UUID
    name: str
    input: I
    state: str
    """``staged`` in the outbox, or the state of the job."""
    queue: str
    priority: int
    run_at: datetime
    idempotency_key: str
    tenant: str | None
    enqueued_by: str | None


STAGED = "staged"


def enqueued_jobs(name: str | None) -> list[EnqueuedJob[Any]]:
    """Read the jobs of a name, or all, that have not ended; in the order of their enqueues."""
    named = Q() if name is None else Q(name=name)
    found = [_enqueued(row, row.state) for row in live_jobs().filter(named)]
    found += [_enqueued(row, STAGED) for row in staged_rows().filter(named)]
    return sorted(found, key=lambda job: job.id)


def live_jobs() -> QuerySet[Job]:
    """Answer the jobs that have not ended."""
    return Job.objects.using(get_settings().database).filter(state__in=LIVE)


def staged_rows() -> QuerySet[OutboxEntry]:
    """Answer what waits for the relay."""
    return OutboxEntry.objects.using(get_settings().database).filter(published_at=None)


def due(now: datetime) -> int:
    """Count what a worker would start now: lapsed claims too, but nothing that stands by."""
    waiting = Q(state__in=WAITING, run_at__lte=now, blocked=False)
    lapsed = Q(state=JobState.RUNNING, visible_at__lte=now)
    return (
        live_jobs().filter(waiting | lapsed).count() + staged_rows().filter(run_at__lte=now).count()
    )


def queues_in_use() -> set[str]:
    """Name the queues of the jobs that have not ended."""
    return set(live_jobs().order_by().values_list("queue", flat=True).distinct())


def next_due(now: datetime) -> datetime | None:
    """Answer when a declared job falls due after ``now``; a run that waits, by its timeout."""
    waits = JobStep.objects.using(get_settings().database).filter(status=StepStatus.WAITING)
    ends = dict(waits.values_list("job_id", "wake_at"))
    known = Q(name__in=registry.names())
    waiting = live_jobs().filter(known, state__in=WAITING, blocked=False)
    instants = [ends.get(job) or run_at for job, run_at in waiting.values_list("id", "run_at")]
    instants += staged_rows().filter(known).values_list("run_at", flat=True)
    return min((at for instant in instants if (at := aware(instant)) > now), default=None)


def waits_for(events: Collection[str]) -> list[JobStep]:
    """Read the waits for some events that are open."""
    steps = JobStep.objects.using(get_settings().database)
    return list(steps.filter(status=StepStatus.WAITING, event__in=events).order_by("job_id"))


def _enqueued(row: Job | OutboxEntry, state: str) -> EnqueuedJob[Any]:
    known = registry.get(row.name)
    return EnqueuedJob(
        id=row.id,
        run_id=row.run_id,
        name=row.name,
        input=row.input if known is None else known.parse(row.input),
        state=state,
        queue=row.queue,
        priority=row.priority,
        run_at=aware(row.run_at),
        idempotency_key=row.idempotency_key,
        tenant=row.tenant_id,
        enqueued_by=row.enqueued_by,
    )
