"""The rows: the columns of the tables of the PostgreSQL driver, as frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ultimate_jobs.core.states import LIVE, WAITING

Namespace = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an enqueue decides about a job."""

    id: UUID
    run_id: UUID
    name: str
    queue: str
    priority: int
    input: str
    idempotency_key: str
    lease_key: str | None
    max_attempts: int
    run_at: datetime
    tenant_id: str | None
    traceparent: str | None
    enqueued_by: str | None
    related_type_id: int | None
    related_id: str | None

    @property
    def namespace(self) -> Namespace:
        """What at most one live job has, and at most one staged row."""
        return self.name, self.tenant_id or "", self.idempotency_key


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow(Asked):
    """One job. ``state`` is text: what is stored may be unknown to whoever reads it."""

    state: str
    created_at: datetime
    updated_at: datetime
    attempt: int = 0
    claim: int = 0
    claimed_by: str | None = None
    visible_at: datetime | None = None
    blocked: bool = False
    last_error: str | None = None
    progress: str | None = None
    result: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether it holds its key."""
        return self.state in LIVE

    @property
    def is_waiting(self) -> bool:
        """Whether it may be claimed when it is due, or stands by for a slot."""
        return self.state in WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRow(Asked):
    """One staged job; ``published_at`` is set on a receipt, which names the job it was met by."""

    staged_at: datetime
    published_at: datetime | None = None
    job_id: UUID | None = None
    refusals: int = 0
    retry_at: datetime | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step of one run. ``waited_from`` is the number of the last commit that it has seen."""

    run_id: UUID
    name: str
    job_id: UUID
    position: int
    status: str
    started_at: datetime
    waited_from: int
    output: str | None = None
    error: str | None = None
    attempts: int = 0
    undoable: bool = False
    completed_at: datetime | None = None
    wake_at: datetime | None = None
    event: str | None = None
    match: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One event. ``commit`` is the number of the commit that brought it; ``None`` before."""

    id: UUID
    name: str
    correlation_key: str | None
    payload: str
    published_at: datetime
    expires_at: datetime
    commit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """One occupied slot."""

    lease_key: str
    slot: int
    job_id: UUID
    run_id: UUID
    claim: int
    worker: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """The sign of life of one worker process."""

    id: str
    host: str
    pid: int
    queues: Sequence[str]
    jobs: Sequence[str]
    concurrency: int
    state: str
    running: Sequence[UUID]
    started_at: datetime
    beat_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRow:
    """A paused queue or task."""

    kind: str
    name: str
    paused_at: datetime
    paused_by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRow:
    """Endings of one job in one span of time."""

    span: int
    bucket: datetime
    name: str
    done: int = 0
    retried: int = 0
    failed: int = 0
    dead: int = 0
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRow:
    """One token bucket; instants are seconds since 1970."""

    key: str
    tokens: float
    capacity: float
    refill_per_second: float
    at: float
    promised: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """How far one task has come."""

    name: str
    rule: str
    watermark: datetime
    last_fired: datetime | None = None
    fired_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderRow:
    """The scheduler that leads: at most one row."""

    holder: str
    since: datetime
    expires_at: datetime
