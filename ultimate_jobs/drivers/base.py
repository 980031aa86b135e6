"""The contract between the rules and the place where rows live."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol, TypeVar
from uuid import UUID

from ultimate_jobs.core.records import (
    Batch,
    ClaimRequest,
    Claims,
    Enqueued,
    Fence,
    HeldClaim,
    NewEvent,
    PoisonRow,
    RelayPass,
    Requeue,
    Settling,
    StepWrite,
    WaitEnd,
)
from ultimate_jobs.core.replay import StepRecord

T = TypeVar("T")


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

    def claim(self, request: ClaimRequest) -> Claims:
        """Take at most ``room`` due rows in one statement.

        Rows that a dead worker left come first, then the order is priority, run_at, id. Each becomes ``running`` with a new claim number and one more attempt. Rows of paused
        queues, of unknown names, and rows locked by others are passed over. With ``reap``, rows
        whose lease lapsed are taken too, or buried when they have no attempt left.

        Raises:
            ClaimQueuesEmpty: the request names no queue.

        """
        ...

    def settle(self, worker: str, endings: Sequence[Settling]) -> set[tuple[UUID, int]]:
        """Write endings and count them, in one statement; answer the claims that still stood.

        An ending whose claim no longer stands changes nothing and counts nothing.
        """
        ...

    def heartbeat(
        self, worker: str, held: Sequence[HeldClaim], lease: timedelta
    ) -> list[HeldClaim]:
        """Give one sign of life for all claims of a worker; answer those it no longer holds.

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
            PublishRefused: a row was refused; nothing was moved.

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
    """What an operator does to one job. Each verb is one statement and has one winner."""

    def cancel(self, job: UUID, reason: str | None) -> bool:
        """Cancel a live job; ``False``: it has ended, or there is none."""
        ...

    def requeue(self, job: UUID, from_step: str | None) -> Requeue:
        """Make a finished job due now, with no attempt used; forget a step and all after it."""
        ...

    def resolve_step(self, job: UUID, step: str, *, ran: bool, output: str | None) -> bool:
        """Say how a step in doubt ended; ``False``: none is in doubt, or the job is running."""
        ...


class Driver(Protocol):
    """One place where rows live."""

    name: str

    @property
    def queue(self) -> Queue:
        """The jobs."""
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


class ClaimGone(Exception):
    """The claim that a write named no longer stands."""


class PublishRefused(Exception):
    """The database refused to publish a batch of staged rows."""


class Unreachable(Exception):
    """The database did not answer, or the connection broke; the same call may succeed later."""
