"""How long a loop waits between passes."""

from __future__ import annotations

from datetime import timedelta

FIRST_AFTER_WAKE = 0.02
"""Seconds from a pass that was woken to the next. Whoever enqueues stays silent for as long."""


class IdleWait:
    """The base wait while there is work, doubled per empty pass up to a ceiling.

    A wake starts a ramp below the base: the passes after it come soon, and find the work whose
    word was left out because of that wake. The ramp ends when empty passes have reached the base.

    Args:
        base: the wait after a pass that found work.
        ceiling: the longest wait.
        trusted_ceiling: the longest wait while word of new work is proven to arrive.

    """

    def __init__(
        self, base: timedelta, ceiling: timedelta, trusted_ceiling: timedelta | None = None
    ) -> None:
        self._base = base.total_seconds()
        self._untrusted = max(ceiling.total_seconds(), self._base)
        self._trusted = max((trusted_ceiling or ceiling).total_seconds(), self._untrusted)
        self._ceiling = self._untrusted
        self._floor = self._base
        self._next = self._base

    def after(self, *, found: bool) -> float:
        """Answer the seconds to wait after a pass that found work, or none."""
        if found:
            self._next = self._floor
            return self._floor
        wait = self._next
        if wait >= self._base:
            self._floor = self._base
        self._next = min(wait * 2, self._base if wait < self._base else self._ceiling)
        return wait

    def woken(self) -> None:
        """Start the ramp: there is new work."""
        self._floor = self._next = min(FIRST_AFTER_WAKE, self._base)

    def trust(self, *, live: bool) -> None:
        """Say whether word of new work arrives; it decides which ceiling holds."""
        self._ceiling = self._trusted if live else self._untrusted
        self._next = min(self._next, self._ceiling)


class Backoff:
    """Seconds to wait after failures in a row: from half a second, doubled, up to ten."""

    def __init__(self, first: float = 0.5, most: float = 10.0) -> None:
        self._first = first
        self._most = most
        self._next = first

    def failed(self) -> float:
        """Answer the wait after one more failure."""
        wait = self._next
        self._next = min(self._next * 2, self._most)
        return wait

    def worked(self) -> None:
        """Start over."""
        self._next = self._first
