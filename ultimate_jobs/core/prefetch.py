"""How many runs a worker takes before it has a body for them.

A claim costs about as much for one row as for a hundred, so a worker whose bodies are short takes
runs ahead. It takes no more than will start very soon by what the last bodies took: others may have
a body free, and a run that waits here waits behind whatever runs here.
"""

from __future__ import annotations

from collections.abc import Sequence

HORIZON = 0.02
"""Seconds within which everything that was taken ahead is expected to have started."""

TINY = 0.0001
"""Seconds up to which a body is not worth a second thread: it ends before one has woken up."""

_MEMORY = 0.25
"""How much the newest bodies say about the next ones, against all before them."""


class Prefetch:
    """Learns from the bodies that ended how far ahead to take.

    Args:
        bodies: how many run at once.
        most: the most runs to take ahead; zero takes none.

    """

    def __init__(self, bodies: int, most: int) -> None:
        self.ahead = 0
        """How many runs may wait for a body."""
        self.tiny = False
        """Whether most bodies end so soon that one thread after the other is enough."""
        self._bodies = bodies
        self._most = most
        self._seconds: float | None = None

    def ended(self, seconds: Sequence[float]) -> None:
        """Learn how long some bodies took. Long ones count at once, short ones little by little."""
        if not seconds:
            return
        newest = sum(seconds) / len(seconds)
        before = newest if self._seconds is None else self._seconds
        self._seconds = max(newest, before + (newest - before) * _MEMORY)
        self.tiny = sorted(seconds)[len(seconds) // 2] < TINY
        self.ahead = min(self.ahead, self._reachable())

    def claimed(self, asked: int, got: int) -> None:
        """Learn what a claim for ``asked`` runs came to: twice as far next time, or only so far.

        What is short of what was asked for is all that may wait, or all there is.
        """
        if self._seconds is not None and got >= asked:
            self.ahead = min(max(2 * self.ahead, 4 * self._bodies), self._reachable())
        else:
            self.ahead = min(self.ahead, max(got, self._bodies), self._reachable())

    def stuck(self) -> None:
        """Start over: nothing has started for too long."""
        self.ahead, self.tiny, self._seconds = 0, False, None

    def _reachable(self) -> int:
        if self._seconds is None:
            return 0
        return min(int(self._bodies * HORIZON / max(self._seconds, 1e-6)), self._most)
