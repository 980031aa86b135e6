"""What a loop says about itself: that it turns, and when the database last answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Vitals:
    """One loop at one moment, in plain values.

    Attributes:
        loop: what it is: ``worker``, ``relay``.
        state: ``starting``, ``running``, ``quiet``, ``draining`` or ``stopped``.
        overdue_seconds: how late its next turn is; 0 while it is on time.
        database: whether the last question to the database was answered.
        database_seconds: since the last answer; ``None`` before the first.
        in_flight: bodies that run.
        processed: attempts that ended.

    """

    loop: str
    state: str
    overdue_seconds: float
    database: bool
    database_seconds: float | None
    in_flight: int = 0
    processed: int = 0


class Pulse:
    """Beaten by a loop and its helpers, read by whoever asks for its health.

    Each beat sets single attributes, so no lock is taken and a signal handler may run in between.
    """

    def __init__(self, loop: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self._clock = clock
        self._due = clock()
        self._state = "starting"
        self._counts = (0, 0)
        self._database = False
        self._answered_at: float | None = None

    def turn(
        self, within: float, *, state: str = RUNNING, in_flight: int = 0, processed: int = 0
    ) -> None:
        """Note one turn of the loop, and its promise to turn again within so many seconds."""
        self._state = state
        self._counts = (in_flight, processed)
        self._due = self._clock() + within

    def answered(self) -> None:
        """Note that the database answered."""
        self._answered_at = self._clock()
        self._database = True

    def unanswered(self) -> None:
        """Note that it did not."""
        self._database = False

    def read(self) -> Vitals:
        """Answer how the loop is now. Any thread."""
        now = self._clock()
        answered_at = self._answered_at
        in_flight, processed = self._counts
        return Vitals(
            loop=self._loop,
            state=self._state,
            overdue_seconds=max(now - self._due, 0.0),
            database=self._database,
            database_seconds=None if answered_at is None else now - answered_at,
            in_flight=in_flight,
            processed=processed,
        )
