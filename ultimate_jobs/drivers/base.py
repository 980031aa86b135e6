"""The contract between the rules and the place where rows live."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, TypeVar
from uuid import UUID

from ultimate_jobs.core.bucket import Bucket, Taken
from ultimate_jobs.core.dispatch import ArmedTask, Lead, TaskFire, Volley
from ultimate_jobs.core.records import (
    Admitted,
    Backlog,
    Batch,
    BucketPurge,
    ClaimRequest,
    Claims,
    Enqueued,
    Fence,
    Fleet,
    Found,
    HeldClaim,
    Lost,
    NewEvent,
    Notice,
    PoisonRow,
    Presence,
    QueueDepth,
    RelayPass,
    Requeue,
    Settling,
    SlotAnswer,
    SlotRequest,
    StepWrite,
    Stranded,
    Topic,
    WaitEnd,
)
from ultimate_jobs.core.replay import StepRecord
from ultimate_jobs.core.selection import Chosen, Look, Moved, Selection
from ultimate_jobs.core.states import JobState

T = TypeVar("T")

LAPSED_ERROR = (
    "X_JOB_LEASE_LOST: The lease lapsed on the last attempt: its worker died, froze, or lost the "
    "database while the body ran."
)
"""What a buried job is given as its last error, before that of the attempt before."""

UNSURE = timedelta(seconds=1)
"""A run that has begun to wait falls due so soon until it was looked at once more."""


class Part(StrEnum):
    """What a driver may lack. It says so in ``absent``, and nothing else of the contract changes."""

    SLOTS = "slots"
    """A store for caps; its property answers ``None``."""

    RATE_LIMITS = "rate_limits"
    """A store for budgets; its property answers ``None``."""

    SCHEDULE = "schedule"
    """Watermarks of tasks; its property raises."""

    EVENTS = "events"
    """What runs wait for; its property raises."""

    WAKE = "wake"
    """Word of new work; its property raises."""

    RETENTION = "retention"
    """Deleting what is old; its property raises."""

    OPERATOR = "operator"
    """What an operator sees and does; its property raises."""

    TRANSACTIONS = "transactions"
    """Staged rows and steps that are committed, or undone, together with the caller's own rows."""

    DURABILITY = "durability"
    """What is written outlives the process, and every other process sees it."""


class Queue(Protocol):
    """The jobs themselves."""

    def enqueue(self, batch: Batch) -> list[Enqueued]:
        """Publish a batch at once; the answers parallel its jobs.

        Keys within the batch differ. A job whose key a live or staged job holds writes nothing and
        answers with that job. While another transaction still holds a key, this waits for it:
        nobody is answered with a row that is rolled back later. Atomic over the batch; locks are
        taken in the order of the keys.
        """
        ...

    def enqueue_apart(self, batch: Batch) -> list[Enqueued]:
        """Publish like ``enqueue``, outside any transaction that the caller has open.

        Raises:
            InvariantError: that transaction has staged one of the keys, which this would wait for.

        """
        ...

    def find(self, job: UUID) -> Found | None:
        """Find what an enqueue has become: a job, the live job that answers for it, a staged row.

        What has not ended is seen as others see it, however old the snapshot is of a transaction
        that the caller has open. What that transaction alone sees is not ``committed``.
        """
        ...

    def claim(self, request: ClaimRequest) -> Claims:
        """Take at most ``room`` due rows in one statement.

        Rows that a dead worker left come first, then the order is priority, run_at, id. Each
        becomes ``running`` with a new claim number and one more attempt. Rows of paused queues, of
        unknown names, rows that stand by for a slot, and rows locked by others are passed over. With ``reap``, rows
        whose lease lapsed are taken too, or buried when they have no attempt left.

        Raises:
            ClaimQueuesEmpty: the request names no queue.

        """
        ...

    def settle(self, worker: str, endings: Sequence[Settling]) -> set[tuple[UUID, int]]:
        """Write endings and count them, in one statement; answer the claims that still stood.

        An ending whose claim no longer stands changes nothing and counts nothing. The slots of the
        claims are left, and as many rows that stand by for them may be claimed.
        """
        ...

    def heartbeat(
        self, presence: Presence, held: Sequence[HeldClaim], lease: timedelta
    ) -> list[Lost]:
        """Give one sign of life for all claims and slots of a worker; answer those it lost.

        A claim of the worker that is not among them is let go of once its own deadline has passed.
        """
        ...

    def farewell(self, worker: str) -> None:
        """Remove a worker's sign of life; what it still holds lapses by its own deadline."""
        ...

    def disown(self, worker: str, claims: Sequence[HeldClaim]) -> None:
        """Let go of claims although the worker lives on: they lapse by their own deadline."""
        ...

    def record_progress(self, worker: str, notes: Sequence[tuple[HeldClaim, str]]) -> None:
        """Write progress notes, each only while its claim stands."""
        ...


class Slots(Protocol):
    """The places that the runs of capped jobs share."""

    def acquire(
        self, worker: str, lease: timedelta, requests: Sequence[SlotRequest]
    ) -> Mapping[UUID, SlotAnswer]:
        """Take a free slot for each claim, as far as there are any, in one statement."""
        ...

    def stand_by(self, worker: str, claims: Sequence[tuple[HeldClaim, str]]) -> None:
        """Hand claims back, uncounted, until a slot of their key is left.

        Other due rows of the same keys stand by with them, so that claims need not find them.
        """
        ...

    def admit(self, caps: Mapping[str, int], after: str) -> Admitted:
        """Let rows be claimed again whose key has free slots; ``caps`` are by the job's name.

        Leaving a slot does this too. This look finds what it could not: a holder that died, a row
        that began to stand by at that moment.
        """
        ...


class Outbox(Protocol):
    """What transactions staged."""

    def in_transaction(self) -> bool:
        """Answer whether the caller has a transaction open on the outbox's database."""
        ...

    def in_foreign_transaction(self) -> bool:
        """Answer whether the caller has a transaction open on another database only."""
        ...

    def stage(self, batch: Batch) -> list[Enqueued]:
        """Write a batch to the outbox, on the caller's connection, in the caller's transaction.

        Keys within the batch differ. A job whose key is held by a live job this transaction can
        see, or by a staged row, writes nothing and answers with that one; a key that another open
        transaction staged is waited for.
        """
        ...

    def relay(self, limit: int) -> RelayPass:
        """Move at most ``limit`` committed rows to the queue, oldest first, in one statement.

        Publishing is keyed by the staged id: a repeat adds no row, even when the job is finished.

        Raises:
            PublishRefused: a row was refused, such as one that allows no attempt; nothing was moved.

        """
        ...

    def isolate(self, limit: int) -> tuple[RelayPass, list[PoisonRow]]:
        """Move what the next pass would take in ever smaller parts, and set the refused rows aside.

        A refused row is tried again later, by itself, and holds up no other.
        """
        ...

    def pending(self) -> int:
        """Count the rows that wait."""
        ...


class Steps(Protocol):
    """What runs have done."""

    def load(self, fence: Fence) -> tuple[list[StepRecord], str]:
        """Read the steps of a run in the order it reached them, sleeps that are over completed.

        Also answers the snapshot of the reading: what the run provokes from now on comes after it.
        """
        ...

    def put(self, fence: Fence, step: StepWrite) -> str | None:
        """Write a step while the claim stands, in the open transaction if there is one.

        Answers the snapshot of the writing; ``None``, and nothing is written, when the claim is
        lost. A completed step never changes.
        """
        ...

    def settle_wait(self, fence: Fence, name: str) -> WaitEnd | None:
        """End a wait whose event has come or whose time is over; ``None`` while it goes on.

        Raises:
            ClaimGone: the claim is lost; nothing was written.

        """
        ...

    def look_again(self, waits: Sequence[tuple[UUID, timedelta]]) -> list[UUID]:
        """Look once more at runs that have just begun to wait; answer those that are due now.

        The others rest for their poll. Until this look is taken they fall due in a second, so a
        worker that dies before it leaves none to its poll.
        """
        ...

    def transaction_depth(self) -> int:
        """Answer how many transaction blocks the calling thread has open."""
        ...

    def transact(self, work: Callable[[], T]) -> T:
        """Run work in one transaction of the calling thread's connection."""
        ...


class Events(Protocol):
    """What runs wait for."""

    def publish(self, event: NewEvent) -> int:
        """Write an event in the caller's transaction, or in one of its own.

        Runs that wait for it are due when it commits; answers how many there are now.
        """
        ...


class Operator(Protocol):
    """What an operator sees and does. Each verb is one statement, and each job has one winner."""

    def cancel(self, job: UUID, reason: str | None) -> bool:
        """Cancel a live job; ``False``: it has ended, or there is none."""
        ...

    def requeue(self, job: UUID, from_step: str | None) -> Requeue:
        """Make a finished job due now, with no attempt used; forget a step and all after it."""
        ...

    def resolve_step(self, job: UUID, step: str, *, ran: bool, output: str | None) -> bool:
        """Say how a step in doubt ended; ``False``: none is in doubt, or the job is running."""
        ...

    def choose(self, selection: Selection, look: Look) -> Chosen:
        """Find jobs that meet a selection, looking at no more rows than the window has."""
        ...

    def requeue_many(self, jobs: Sequence[UUID], limit: int) -> Moved:
        """Make finished jobs due now; one whose key a live job holds is left and not counted."""
        ...

    def cancel_many(self, jobs: Sequence[UUID], limit: int, reason: str | None) -> Moved:
        """Cancel live jobs."""
        ...

    def promote_many(self, jobs: Sequence[UUID], limit: int) -> Moved:
        """Make jobs due now that wait for their time."""
        ...

    def remove_many(self, jobs: Sequence[UUID], limit: int) -> Moved:
        """Remove jobs that do not run, with their steps."""
        ...

    def pause(self, kind: str, name: str, *, by: str | None, reason: str | None) -> bool:
        """Pause a queue or a task; ``False``: it was paused, and nothing changed."""
        ...

    def resume(self, kind: str, name: str) -> bool:
        """Resume a queue or a task; ``False``: it was not paused."""
        ...

    def queues(self, cap: int) -> list[QueueDepth]:
        """Count what the queues hold, in the order of their names, reading at most ``cap`` rows each."""
        ...

    def demand(self, cap: int) -> Mapping[str, int]:
        """Count what could keep workers busy, by queue: what may be claimed now, and what runs.

        Reads at most ``cap`` rows of each. A queue with nothing of either is left out.
        """
        ...

    def backlog(self, cap: int) -> Backlog:
        """Count what the outbox holds, at most up to ``cap``."""
        ...

    def fleet(self, *, workers: int, tasks: Sequence[str] | None) -> Fleet:
        """Answer who works and what is scheduled.

        Args:
            workers: at most so many worker processes.
            tasks: the names of declared tasks, which come before others when there are very many;
                ``None``: nothing is asked about the schedule.

        """
        ...

    def stranded(self, patience: timedelta, window: int) -> list[Stranded]:
        """Find jobs due for longer than ``patience`` that no living worker can take.

        By queue and name, in this order, among the ``window`` oldest due rows of each queue.
        """
        ...

    def statements(self) -> Mapping[str, str]:
        """Answer the text of every statement by its name, such as ``queue/claim``."""
        ...


class BucketStore(Protocol):
    """Token buckets, by key."""

    @property
    def shared(self) -> bool:
        """Whether every process that uses the store draws from the same buckets."""
        ...

    def take(self, key: str, bucket: Bucket, cost: float, *, comes_back: bool) -> Taken | None:
        """Take tokens from the bucket of a key, which begins full; ``None``: no answer came.

        Atomic over concurrent takes: together they never get more than there is. It is no part of
        a transaction that the caller has open, and a rollback gives nothing back. The bucket has
        the numbers of whoever takes. A caller that ``comes_back`` is given a turn of its own.
        """
        ...


class RateLimits(BucketStore, Protocol):
    """Token buckets that are kept until they are purged."""

    def purge(self, limit: int, after: str = "") -> BucketPurge:
        """Look at ``limit`` buckets behind a key, in order, and delete those that are full again.

        A full bucket and none are the same. Begin with no key and go on behind the answer's.
        """
        ...


class Listening(Protocol):
    """A session on which word of new work comes. It belongs to the thread that dialled it."""

    def receive(self, seconds: float) -> list[Notice]:
        """Wait until something comes, for at most so long; answer what has come, maybe nothing.

        Raises:
            Unreachable: the session is gone.

        """
        ...

    def interrupt(self) -> None:
        """End the wait in progress and every later one. Any thread."""
        ...

    def renounce(self) -> None:
        """Stop listening, also on behalf of a session that a proxy keeps for others."""
        ...

    def close(self) -> None:
        """Hang up."""
        ...


class Wake(Protocol):
    """Word of new work: a hint that shortens a wait. Nothing is lost when it does not come.

    What makes a row due sends word when it commits; the receiver gets the queue's name.
    """

    def listen(self, *topics: Topic) -> Listening:
        """Dial a session of its own and listen on these topics, or on all when none is named.

        Raises:
            Unreachable: the database does not answer.
            django.db.Error: it refuses to listen.

        """
        ...

    def tell(self, words: Sequence[str]) -> None:
        """Send words to everybody who listens for results, when the caller's transaction commits."""
        ...

    def probe(self, token: str) -> None:
        """Send a token the way that word takes, over every topic, to everybody who listens.

        Raises:
            Unreachable: the database does not answer.

        """
        ...


class Schedule(Protocol):
    """What was fired, and who fires."""

    def lead(self, holder: str, lease: timedelta) -> Lead:
        """Take the scheduler's lease when nobody else holds it, or renew it; one holder at a time."""
        ...

    def release(self, holder: str) -> None:
        """Give the lease up, if it is the holder's."""
        ...

    def watermarks(self, tasks: Sequence[ArmedTask]) -> dict[str, datetime]:
        """Answer how far each task has come, by its name.

        A task that has no watermark yet, or that of another rule, starts where it says.
        """
        ...

    def fire(self, holder: str, lease: timedelta, fires: Sequence[TaskFire]) -> Volley:
        """Move watermarks and queue the jobs of those that moved, in one statement.

        A watermark moves only while it is the one that the fire has ``seen``, and the task is not
        paused. Renews the lease; without it nothing happens.

        Raises:
            FireRefused: the database refused a job; nothing was moved.

        """
        ...


class Retention(Protocol):
    """What is deleted when it is old. Each call takes at most ``limit`` rows, the oldest first."""

    def clock(self) -> datetime:
        """Answer the database's clock."""
        ...

    def delete_jobs(self, state: JobState, before: datetime, limit: int) -> int:
        """Delete jobs that ended in ``state`` before an instant, with their steps."""
        ...

    def delete_events(self, before: datetime, limit: int) -> int:
        """Delete events that expired before an instant."""
        ...

    def delete_leases(self, before: datetime, limit: int) -> int:
        """Delete slots of capped jobs that ran out before an instant."""
        ...

    def delete_receipts(self, before: datetime, limit: int) -> int:
        """Delete outbox rows that were published before an instant."""
        ...

    def delete_counters(self, span: int, before: datetime, limit: int) -> int:
        """Delete counters of buckets of ``span`` minutes that began before an instant."""
        ...

    def fold_counters(self, span: int, into: int, before: datetime, limit: int) -> int:
        """Fold counters into buckets of ``into`` minutes that ended before an instant.

        No count is lost, and none is in two rows, however often this is called.
        """
        ...


class Driver(Protocol):
    """One place where rows live."""

    name: str

    @property
    def absent(self) -> Collection[Part]:
        """What the driver lacks; reading it from ``operator`` and the like raises ``DriverLacks``."""
        ...

    @property
    def queue(self) -> Queue:
        """The jobs."""
        ...

    @property
    def slots(self) -> Slots | None:
        """The slots of capped jobs; ``None`` when this driver cannot hold a cap."""
        ...

    @property
    def outbox(self) -> Outbox:
        """The staged rows."""
        ...

    @property
    def steps(self) -> Steps:
        """The steps of runs."""
        ...

    @property
    def events(self) -> Events:
        """The events."""
        ...

    @property
    def operator(self) -> Operator:
        """The operator's verbs."""
        ...

    @property
    def rate_limits(self) -> RateLimits | None:
        """The token buckets, if the driver keeps any."""
        ...

    @property
    def wake(self) -> Wake:
        """Word of new work."""
        ...

    @property
    def schedule(self) -> Schedule:
        """What the scheduler stores."""
        ...

    @property
    def retention(self) -> Retention:
        """What is deleted when it is old."""
        ...

    def repeat_statements(self, *, plan_once: bool = False) -> None:
        """Expect the calling thread to run the same statements again and again, until ``close``.

        ``plan_once``: its connection runs nothing but the statements of this package.
        """
        ...

    def start_of_body(self, refuse: Callable[[], None]) -> None:
        """Prepare the calling thread's connections for a body.

        ``refuse`` is called before each statement that writes and before each commit; what it
        raises keeps that from happening.
        """
        ...

    def end_of_body(self) -> list[str]:
        """Leave the calling thread's connections as a new body must find them.

        Rolls back what was left open and answers where; closes what is broken or too old.
        """
        ...

    def between_passes(self) -> None:
        """Let a long-lived loop forget its query log and drop a broken connection."""
        ...

    def close(self) -> None:
        """Close the calling thread's connections."""
        ...


class Joined(Driver, Protocol):
    """A driver that does everything on the connection of the calling thread: a test's."""

    def session(self) -> AbstractContextManager[None]:
        """Let jobs run inside the block as if no transaction were open.

        What would be a transaction is undone with the one that is open around the block.
        """
        ...


class ClaimGone(Exception):
    """The claim that a write named no longer stands."""


class PublishRefused(Exception):
    """The database refused to publish a batch of staged rows."""


class Unreachable(Exception):
    """The database did not answer, or the connection broke; the same call may succeed later."""


class FireRefused(Exception):
    """The database refused to queue what a task had due; the text says why, without the row."""
