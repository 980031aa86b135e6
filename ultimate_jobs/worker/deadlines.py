"""Instants at which something that may have ended by then must be acted on."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable


class Deadlines:
    """At most one deadline per thing, on the monotonic clock; forgotten with the thing."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._due: dict[Hashable, tuple[float, Callable[[], None]]] = {}

    def set(self, thing: Hashable, seconds: float, act: Callable[[], None]) -> None:
        """Call ``act`` once ``seconds`` have passed; replaces the thing's earlier deadline."""
        self._due[thing] = (self._monotonic() + seconds, act)

    def forget(self, thing: Hashable) -> None:
        """Remove the deadline of a thing, if it has one."""
        self._due.pop(thing, None)

    def next(self) -> float:
        """Answer the instant of the next deadline; infinity when there is none."""
        return min((when for when, _ in self._due.values()), default=float("inf"))

    def fire(self) -> None:
        """Act on every deadline that has passed."""
        if not self._due:
            return
        now = self._monotonic()
        passed = [thing for thing, (when, _) in self._due.items() if when <= now]
        for thing in passed:
            _, act = self._due.pop(thing)
            act()
