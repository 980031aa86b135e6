"""Who has the last word on work that a thread does: the thread, or whoever gave up on it."""

from __future__ import annotations


class Flight:
    """Ends once: by ``land`` on its own thread, or by ``give_up`` elsewhere."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends = [True]  # whoever takes it out has ended the flight: nobody else can

    @property
    def flying(self) -> bool:
        """Whether neither has happened."""
        return bool(self._ends)

    def land(self) -> bool:
        """End the flight; answer ``False`` when it was given up before."""
        return self._end()

    def give_up(self) -> bool:
        """Stop waiting for it; answer ``False`` when it has landed."""
        return self._end()

    def _end(self) -> bool:
        try:
            return self._ends.pop()
        except IndexError:
            return False
