"""The contract between the rules and the place where rows live."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from ultimate_jobs.core.records import (
    Batch,
    ClaimRequest,
    Claims,
    Enqueued,
    HeldClaim,
    PoisonRow,
    RelayPass,
    Settling,
)


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
        """Give one sign of life for all claims of a worker; answer those it no longer holds."""
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


class PublishRefused(Exception):
    """The database refused to publish a batch of staged rows."""


class Unreachable(Exception):
    """The database did not answer, or the connection broke; the same call may succeed later."""
