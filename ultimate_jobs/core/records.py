"""Values that cross the seam between the rules and the place where rows live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Protocol
from uuid import UUID

import msgspec

from ultimate_jobs.core.durations import Duration
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.core.states import TERMINAL, JobState


class Endings(Protocol):
    """Finds out how jobs end. The package that enqueues installs itself as one."""

    def status(self, job: UUID) -> str:
        """Answer ``Enqueued.status``."""
        ...

    def result(self, job: UUID, timeout: Duration | None) -> Any:
        """Answer ``Enqueued.result``."""
        ...

    async def aresult(self, job: UUID, timeout: Duration | None) -> Any:  # noqa: ASYNC109 - as result
        """Answer ``Enqueued.aresult``."""
        ...


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to an enqueue, and a handle on the job.

    ``id`` names the job (in a transaction, already the id it will have), ``run_id`` the run that
    its steps belong to. ``deduped`` says that a live job held the key: the ids are its ids, and
    nothing was written.
    """

    endings: ClassVar[Endings]

    id: UUID
    run_id: UUID
    deduped: bool

    def status(self) -> str:
        """Answer the state of the job, or ``staged`` while it waits for the relay.

        Raises:
            ResultGone: there is no such job any more.
            DriverUnavailable: the database did not answer.

        """
        return self.endings.status(self.id)

    def result(self, timeout: Duration | None = None) -> Any:
        """Wait until the job has ended; answer what its body returned, in stored form.

        Args:
            timeout: how long to wait; zero looks once, ``None`` waits for as long as it takes.

        Raises:
            JobFailed: it failed for good; a retry by an operator may still succeed.
            JobCancelled: it was cancelled.
            ResultTimeout: it has not ended in time, and goes on.
            ResultGone: there is no such job any more.
            ResultNotCommitted: the enqueue is part of the transaction that waits here.
            DriverUnavailable: the database did not answer.

        """
        return self.endings.result(self.id, timeout)

    async def aresult(self, timeout: Duration | None = None) -> Any:  # noqa: ASYNC109 - as result
        """Wait like ``result`` without holding a thread up."""
        return await self.endings.aresult(self.id, timeout)


@dataclass(frozen=True, slots=True)
class Found:
    """What has become of an enqueued job.

    ``state`` is ``None`` while it waits in the outbox; ``result`` is JSON text. ``committed``: others
    than the caller's transaction see it, so that somebody can run it.
    """

    name: str
    state: JobState | None
    result: str | None = None
    error: str | None = None
    committed: bool = True

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will become of it by itself."""
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class NewJob:
    """One input, ready to be written."""

    id: UUID
    run_id: UUID
    idempotency_key: str
    input: str
    lease_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Inputs of one job, enqueued by one call, with what they share.

    ``run_at`` is an instant, ``delay`` counts from the database's clock; at most one is given.
    """

    name: str
    queue: str
    jobs: Sequence[NewJob]
    max_attempts: int
    priority: int = 0
    run_at: datetime | None = None
    delay: timedelta | None = None
    tenant_id: str | None = None
    traceparent: str | None = None
    enqueued_by: str | None = None
    related_type_id: int | None = None
    related_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What a worker can take now.

    ``room`` bounds the rows taken in all, ``shares`` those of each queue. ``names`` are the jobs
    this worker knows. ``reap`` also looks for work whose worker is gone; ``undead`` names the
    jobs that are buried as ``failed`` instead of ``dead``.

    Up to ``ahead`` rows more may be taken that will wait in the worker before they start: rows of the
    jobs ``waitable``, with no attempt counted so far and another one after this, and none behind a
    row that is not.
    """

    worker: str
    queues: Sequence[str]
    names: Sequence[str]
    room: int
    shares: Sequence[int]
    lease: timedelta
    reap: bool = True
    undead: Sequence[str] = ()
    ahead: int = 0
    waitable: Sequence[str] = ()


class ClaimedJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A row this worker holds. ``claim`` is the fence: a new number at every claim."""

    id: UUID
    claim: int
    name: str
    queue: str
    input: str
    run_id: UUID
    attempt: int
    max_attempts: int
    tenant_id: str | None
    traceparent: str | None
    last_error: str | None = None
    snapshot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuriedJob:
    """A row whose lease lapsed with no attempt left; the claim ended it."""

    id: UUID
    name: str
    queue: str
    input: str
    run_id: UUID
    attempt: int
    state: JobState
    last_error: str
    tenant_id: str | None


@dataclass(frozen=True, slots=True)
class Claims:
    """The answer to a claim."""

    jobs: Sequence[ClaimedJob] = ()
    buried: Sequence[BuriedJob] = ()


class Tally(msgspec.Struct, frozen=True, gc=False):
    """What an ending adds to the counters of its job."""

    done: int = 0
    retried: int = 0
    failed: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedStep:
    """The step that a run waits at, written together with its suspension if it is new."""

    name: str
    position: int
    status: StepStatus
    event: str | None = None
    match: str | None = None


class Settlement(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What becomes of a claimed row; written only while its claim still stands.

    ``wait`` counts from the database's clock; ``until`` is an instant, and goes before it; a row that
    stays ``in_place`` keeps its time whatever these are. With ``poll`` the row falls due earlier, to
    look again. An uncounted settlement gives the attempt back. ``parked`` is the step at which a
    suspended run waits.
    """

    state: JobState
    counted: bool = True
    in_place: bool = False
    wait: timedelta = timedelta(0)
    until: datetime | None = None
    poll: timedelta | None = None
    parked: ParkedStep | None = None
    error: str | None = None
    result: str | None = None
    tally: Tally = Tally()


@dataclass(frozen=True, slots=True)
class Slot:
    """One of the places that the runs of a capped job, or of one key of it, share."""

    key: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """A claim that may start when a slot of its key is free. ``cap`` is how many there are."""

    id: UUID
    run_id: UUID
    claim: int
    key: str
    cap: int


@dataclass(frozen=True, slots=True)
class SlotAnswer:
    """What a request for a slot met.

    ``number`` is the slot, if there was one; ``others`` counts the slots that other runs hold.
    ``raced`` says that one was free and another claim took it at the same moment.
    """

    number: int | None
    others: int
    raced: bool


@dataclass(frozen=True, slots=True)
class Admitted:
    """One look for rows that stand by for a free slot.

    ``last_key`` is where the next look goes on, ``None`` at the end of the keys; ``standing_by``
    says that there are any, ``count`` how many may be claimed again.
    """

    last_key: str | None = None
    standing_by: bool = False
    count: int = 0


class Settling(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One settlement on its way to the row."""

    id: UUID
    claim: int
    settlement: Settlement
    seconds: float
    progress: str | None = None
    slot: Slot | None = None


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim this worker believes it holds, with the slot that it occupies, if any."""

    id: UUID
    claim: int
    slot: Slot | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Lost:
    """A claim of which a sign of life found that it, or only its slot, is no longer held."""

    claim: HeldClaim
    slot_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What a worker process says about itself with every sign of life."""

    worker: str
    host: str
    pid: int
    queues: Sequence[str]
    jobs: Sequence[str]
    concurrency: int
    state: str


class Fence(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What every write of a run names: the row, the claim on it, and who holds it."""

    job_id: UUID
    run_id: UUID
    claim: int
    worker: str


class StepWrite(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One step, ready to be written. ``output`` is JSON text."""

    name: str
    position: int
    status: StepStatus
    output: str | None = None
    error: str | None = None
    attempts: int = 1
    took: timedelta = timedelta(0)
    undoable: bool = False
    since: str | None = None


@dataclass(frozen=True, slots=True)
class WaitEnd:
    """How a wait ended: ``output`` is the JSON text of the event found, ``None`` a timeout."""

    output: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """One event, ready to be written."""

    id: UUID
    name: str
    payload: str
    correlation_key: str | None
    ttl: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """What a requeue met and did.

    ``state`` is the job's before it; ``None``: no such job. ``undone`` says that a step which was to
    be kept has been undone.
    """

    moved: bool
    state: JobState | None = None
    holder: UUID | None = None
    step_known: bool = False
    undone: bool = False


@dataclass(frozen=True, slots=True)
class RelayPass:
    """What one pass of the relay did: rows seen, published, and answered by a live job."""

    seen: int = 0
    published: int = 0
    deduped: int = 0
    poisoned: int = 0


@dataclass(frozen=True, slots=True)
class BucketPurge:
    """What one pass over the buckets deleted, and the key to go on behind; ``None``: none is left."""

    deleted: int
    after: str | None


@dataclass(frozen=True, slots=True)
class PoisonRow:
    """A staged row that the queue refused."""

    id: UUID
    name: str
    error: str


class Topic(StrEnum):
    """What word is about: new work, staged work, or jobs whose end somebody waits for."""

    JOBS = "jobs"
    OUTBOX = "outbox"
    RESULTS = "results"


@dataclass(frozen=True, slots=True)
class Notice:
    """Word that came over a listening session: a queue's name, a job's id, or a probe's token."""

    topic: Topic
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """What one queue holds, each job counted once; the columns of ``operator/queues.sql``.

    ``ready`` is due, ``delayed`` waits for its time, ``standing_by`` is due and waits for a slot of
    its cap, ``suspended`` sleeps or waits for an event. ``oldest_ready_seconds`` is of what is ready.
    With ``capped`` a count reached its cap, and the counts are at least what they say. A queue that
    is not paused has no ``paused_at``.
    """

    queue: str
    ready: int
    delayed: int
    standing_by: int
    running: int
    suspended: int
    failed: int
    dead: int
    capped: bool
    oldest_ready_seconds: float | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Who works and what is scheduled: each a mapping of what is known of it, instants in ISO 8601.

    ``workers`` are ordered by their last sign of life, ``tasks`` (those that have rows, declared or
    not) by name. ``leader`` is ``None`` while no scheduler leads.
    """

    now: datetime
    leader: Mapping[str, Any] | None
    tasks: Sequence[Mapping[str, Any]]
    workers: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits in the outbox; ``refused`` rows are those that the queue refused at least once."""

    waiting: int
    refused: int
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranded:
    """Due jobs of one queue and name that no living worker can take.

    ``why`` is ``no worker lives``, ``no worker serves its queue`` or ``no worker knows it``, which
    is said of the workers that serve the queue. With ``capped`` there may be more than ``count``.
    """

    queue: str
    name: str
    count: int
    capped: bool
    oldest_seconds: float
    why: str
