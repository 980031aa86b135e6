"""The lease, and the database's clock between two looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from ultimate_jobs.core.dispatch import Volley
from ultimate_jobs.drivers.base import Schedule

LEASE = timedelta(seconds=30)
RENEW_EVERY = timedelta(seconds=10)
_BEFORE_EVERYTHING = datetime.min.replace(tzinfo=UTC)


class Leadership:
    """Whether this scheduler leads, asked of the database at most every ``RENEW_EVERY``.

    Args:
        schedule: where the lease is.
        holder: the name of this scheduler, unlike any other's.
        monotonic: a clock that never goes back, in seconds.

    """

    def __init__(self, schedule: Schedule, holder: str, monotonic: Callable[[], float]) -> None:
        self.holder = holder
        self.leading = False
        self.paused: frozenset[str] = frozenset()
        self._schedule = schedule
        self._monotonic = monotonic
        self._ask_at = self._trusted_until = monotonic()
        self._heard = (_BEFORE_EVERYTHING, monotonic())

    def holds(self) -> bool:
        """Answer whether this scheduler leads; renews the lease, or tries to take it, when it is time.

        Raises:
            Unreachable: the database does not answer.

        """
        asked_at = self._monotonic()
        if asked_at >= self._ask_at:
            answer = self._schedule.lead(self.holder, LEASE)
            self.paused = answer.paused
            self._hear(asked_at, answer.now, leading=answer.granted)
        return self.leading

    @property
    def trusted(self) -> bool:
        """Whether a fire may be tried without asking first: it asks for the lease itself."""
        return self.leading and self._monotonic() < self._trusted_until

    def now(self) -> datetime:
        """Answer the database's clock; never ahead of it, whatever the answer's way took."""
        instant, at = self._heard
        return instant + timedelta(seconds=self._monotonic() - at)

    def fired(self, asked_at: float, volley: Volley) -> None:
        """Take note of what a fire, which renews the lease, said about it."""
        self._hear(asked_at, volley.now, leading=volley.leading)

    def found_paused(self, tasks: Iterable[str]) -> None:
        """Take note of tasks that turned out to be paused."""
        self.paused = self.paused.union(tasks)

    def release(self) -> None:
        """Give the lease up, so that another scheduler need not wait for its end.

        Raises:
            Unreachable: the database does not answer; the lease runs out by itself.

        """
        if self.leading:
            self.leading = False
            self._schedule.release(self.holder)

    def _hear(self, asked_at: float, now: datetime, *, leading: bool) -> None:
        self._heard = (now, self._monotonic())
        self._ask_at = asked_at + RENEW_EVERY.total_seconds()
        self._trusted_until = asked_at + LEASE.total_seconds()
        self.leading = leading
