"""A wait that can be ended from another thread, or from a signal handler."""

from __future__ import annotations

from queue import Empty, SimpleQueue


class Bell:
    """Wait for a time, or until it is rung. Ringing takes no lock that the waiter may hold."""

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        """End the wait in progress, or the next one."""
        self._rings.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait; answer whether the bell was rung."""
        try:
            self._rings.get(timeout=seconds)
        except Empty:
            return False
        while not self._rings.empty():
            self._rings.get()
        return True
