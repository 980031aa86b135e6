"""The clock of a test: it stands still until it is moved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from unittest.mock import patch

from django.utils import timezone

from ultimate_jobs.core.durations import Duration, duration
from ultimate_jobs.errors import InvariantError
from ultimate_jobs.process.clock import going_by
from ultimate_jobs.worker.deadlines import Deadlines

_MICROSECOND = 1e-6
"""Seconds by which sums of seconds may differ from what they stand for."""


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant, and the seconds that a clock which never goes back shows at it."""

    instant: datetime
    seconds: float


class Clock:
    """One time for Python and for PostgreSQL. It stands still until it is moved.

    While it is in place, every statement of this package goes by it, so do the rules that count in
    memory, and so does ``django.utils.timezone.now()``. It moves nothing else: neither
    ``time.time()`` and ``datetime.now()``, nor ``now()`` in SQL that is not ours.
    """

    def __init__(self) -> None:
        self._moment = Moment(_wall(), time.monotonic())
        self._follows = False
        self.deadlines = Deadlines(self.monotonic)
        """What is to happen when the clock passes an instant."""

    def __repr__(self) -> str:
        return f"<clock {self.now().isoformat()}>"

    def now(self) -> datetime:
        """Answer the instant, in UTC."""
        return _wall() if self._follows else self._moment.instant

    def monotonic(self) -> float:
        """Answer seconds that grow with every move forward, and never go back."""
        return time.monotonic() if self._follows else self._moment.seconds

    def advance(self, length: Duration) -> datetime:
        """Move forward, and answer the new instant.

        Args:
            length: ``"3d"``, ``"1h30m"``, a ``timedelta``, or seconds.

        Raises:
            InvariantError: it is no length, or the clock follows Python's.

        """
        try:
            span = duration(length, zero=True)
        except ValueError as error:
            raise InvariantError(f"The length {error}.") from None
        return self._move(self.now() + span)

    def move_to(self, instant: datetime) -> datetime:
        """Move to an instant, also to an earlier one, and answer it.

        Raises:
            InvariantError: it has no time zone, or the clock follows Python's.

        """
        if instant.tzinfo is None:
            raise InvariantError("The clock moves to an instant with a time zone.")
        return self._move(instant.astimezone(UTC))

    def follow_python(self) -> None:
        """Go by Python's own clock from now on: for tests that move that, by freezegun or time-machine.

        ``timezone.now()`` is left to them, and PostgreSQL goes by what Python says.
        """
        self._follows = True

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let this package and ``timezone.now()`` go by this clock inside the block."""
        with going_by(self), patch.object(timezone, "datetime", _moved_by(self)):
            yield

    def _move(self, instant: datetime) -> datetime:
        if self._follows:
            raise InvariantError("The clock follows Python's: move that one.")
        span = (instant - self._moment.instant).total_seconds()
        goal = Moment(instant, self._moment.seconds + max(span, 0.0))
        while (due := self.deadlines.next()) <= goal.seconds + _MICROSECOND:
            ahead = max(due - self._moment.seconds, 0.0)
            self._moment = Moment(
                min(self._moment.instant + timedelta(seconds=ahead), goal.instant),
                self._moment.seconds + ahead,
            )
            self.deadlines.fire()
        self._moment = goal
        return instant


def _wall() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - what is shown before the first move


def _moved_by(clock: Clock) -> type[datetime]:
    """Build the ``datetime`` that ``django.utils.timezone`` finds: its ``now`` is the clock's."""

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, datetime)

    def now(cls: object, tz: tzinfo | None = None) -> datetime:
        here = clock.now().astimezone(tz)
        return here if tz is not None else here.replace(tzinfo=None)

    build: Callable[..., Any] = Kind
    moved: type[datetime] = build("datetime", (datetime,), {"now": classmethod(now)})
    return moved
