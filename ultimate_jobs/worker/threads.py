"""Body threads: as many as run at once, and one more for each that never came back."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from queue import SimpleQueue

Task = Callable[[], bool]
"""Runs, and answers whether its thread may take another task."""

_names = itertools.count(1)


class BodyThreads:
    """Threads that run tasks. Used by one thread, the dispatcher.

    The threads are daemons: a body that never returns cannot keep the process from ending.
    ``welcome`` and ``goodbye`` are called on each, first and last.
    """

    def __init__(self, welcome: Callable[[], None], goodbye: Callable[[], None]) -> None:
        self._welcome = welcome
        self._goodbye = goodbye
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._threads = 0
        self._busy = 0

    def submit(self, task: Task) -> None:
        """Run a task as soon as a thread is free; there is one for every task in flight."""
        self._busy += 1
        if self._busy > self._threads:
            self._threads += 1
            name = f"ultimate_jobs-body-{next(_names)}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._tasks.put(task)

    def done(self) -> None:
        """Note that a task is through and its thread is free."""
        self._busy -= 1

    def lost(self) -> None:
        """Note that a task will not end in time: its thread no longer counts."""
        self._busy -= 1
        self._threads -= 1

    def close(self) -> None:
        """Let every thread end: the free ones now, the others after their task."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _work(self) -> None:
        try:
            self._welcome()
            while (task := self._tasks.get()) is not None:
                if not task():
                    return
        finally:
            self._goodbye()
