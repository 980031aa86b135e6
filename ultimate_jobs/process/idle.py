"""How long a loop waits between passes."""

from __future__ import annotations

from datetime import timedelta


class IdleWait:
    """The base wait while there is work, doubled per empty pass up to a ceiling."""

    def __init__(self, base: timedelta, ceiling: timedelta) -> None:
        self._base = base.total_seconds()
        self._ceiling = max(ceiling.total_seconds(), self._base)
        self._next = self._base

    def after(self, *, found: bool) -> float:
        """Answer the seconds to wait after a pass that found work, or none."""
        if found:
            self._next = self._base
            return self._base
        wait = self._next
        self._next = min(self._next * 2, self._ceiling)
        return wait


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
