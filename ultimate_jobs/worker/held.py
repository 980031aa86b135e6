"""A claim this process holds, and what is known about its run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from ultimate_jobs.core.jsonform import JSONValue, dumps
from ultimate_jobs.core.limiter import Ticket
from ultimate_jobs.core.records import ClaimedJob, HeldClaim, Slot
from ultimate_jobs.core.spec import JobSpec
from ultimate_jobs.process.cancel import CancelToken
from ultimate_jobs.worker.flight import Flight

PROGRESS_EVERY = 1.0
"""Seconds between two writes of one run's progress."""


@dataclass(slots=True, eq=False)
class StepCeiling:
    """A step that must not take longer than ``limit``."""

    held: Held
    name: str
    token: CancelToken
    limit: timedelta
    flight: Flight = field(default_factory=Flight)


@dataclass(slots=True, eq=False)
class Held:
    """One claimed job. Owned by the dispatcher; a body thread only reports.

    ``may_wait`` says that it need not start at once.
    """

    job: ClaimedJob
    spec: JobSpec
    worker: str
    announce: Callable[[Held], None]
    began_step: Callable[[StepCeiling], None]
    token: CancelToken = field(default_factory=CancelToken)
    flight: Flight = field(default_factory=Flight)
    claimed_at: float = field(default_factory=time.monotonic)
    may_wait: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    slot: Slot | None = None
    ticket: Ticket | None = None
    _note: str | None = None
    _noted_at: float = float("-inf")

    @property
    def key(self) -> HeldClaim:
        """The fence of this claim, with its slot."""
        return HeldClaim(self.job.id, self.job.claim, self.slot)

    @property
    def seconds(self) -> float:
        """How long the attempt has run, or ran."""
        if self.started_at is None:
            return 0.0
        return (self.ended_at or time.monotonic()) - self.started_at

    def leave(self) -> None:
        """Give the place in this process's limits back."""
        if self.ticket is not None:
            self.ticket.abandon()

    def facts(self) -> dict[str, object]:
        """Name the run, for the log."""
        return {
            "id": self.job.id,
            "name": self.job.name,
            "queue": self.job.queue,
            "attempt": self.job.attempt,
        }

    def report(self, note: JSONValue) -> None:
        """Keep the latest progress note, and announce it when one may be written. Body thread."""
        self._note = dumps(note)
        now = time.monotonic()
        if now - self._noted_at >= PROGRESS_EVERY and self.flight.flying:
            self._noted_at = now
            self.announce(self)

    @contextmanager
    def step(self, name: str, token: CancelToken, limit: timedelta) -> Iterator[None]:
        """Have a step watched while the block lasts. Body thread."""
        ceiling = StepCeiling(self, name, token, limit)
        self.began_step(ceiling)
        try:
            yield
        finally:
            ceiling.flight.land()

    def take_note(self) -> str | None:
        """Answer the latest note that has not been written, once."""
        note, self._note = self._note, None
        return note
