"""Who has the last word on work that a thread does: the thread, or whoever gave up on it."""

from __future__ import annotations

import threading
from enum import Enum, auto


class _Stage(Enum):
    FLYING = auto()
    LANDED = auto()
    GIVEN_UP = auto()


class Flight:
    """Ends once: by ``land`` on its own thread, or by ``give_up`` elsewhere."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stage = _Stage.FLYING

    @property
    def flying(self) -> bool:
        """Whether neither has happened."""
        return self._stage is _Stage.FLYING

    def land(self) -> bool:
        """End the flight; answer ``False`` when it was given up before."""
        return self._end(_Stage.LANDED)

    def give_up(self) -> bool:
        """Stop waiting for it; answer ``False`` when it has landed."""
        return self._end(_Stage.GIVEN_UP)

    def _end(self, stage: _Stage) -> bool:
        with self._lock:
            if self._stage is not _Stage.FLYING:
                return False
            self._stage = stage
            return True
