"""Body threads: one line of tasks for all of them, and as many threads as may run at once."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from typing import TypeVar, cast

T = TypeVar("T")

_names = itertools.count(1)


class BodyThreads:
    """Threads that take tasks from one line. Driven by one thread, the dispatcher.

    A task costs no lock and wakes nobody: whoever is called works the line off, and whatever waits
    behind a long task is taken by the next one who is called. The threads are daemons: a body that
    never returns cannot keep the process from ending. ``welcome`` and ``goodbye`` are called on each,
    first and last.

    Args:
        welcome: called first.
        goodbye: called last.
        most: how many may run tasks at once.

    """

    def __init__(
        self, welcome: Callable[[], None], goodbye: Callable[[], None], most: int = 1
    ) -> None:
        self._welcome = welcome
        self._goodbye = goodbye
        self._most = most
        self._line: deque[tuple[Callable[..., bool], object]] = deque()
        self._calls: SimpleQueue[bool] = SimpleQueue()
        self._called = 0
        self._threads: list[_BodyThread] = []

    @property
    def waiting(self) -> int:
        """How many tasks nobody has taken. Any thread."""
        return len(self._line)

    @property
    def busy(self) -> int:
        """How many threads work, or were called to."""
        return self._called - sum(thread.answered for thread in self._threads)

    @property
    def taken(self) -> int:
        """A number that changes whenever a thread takes a task."""
        return sum(thread.taken for thread in self._threads)

    def line_up(self, task: Callable[[T], bool], things: Iterable[T]) -> None:
        """Let ``task(thing)`` wait, for each thing, until a called thread takes it.

        It answers whether its thread may take another one.
        """
        self._line.extend((task, thing) for thing in things)

    def start(self, task: Callable[[T], bool], things: Sequence[T]) -> None:
        """Run tasks before those that wait, each on a thread that is called for it."""
        self._line.extendleft((task, thing) for thing in reversed(things))
        self.staff(len(things))

    def staff(self, count: int) -> None:
        """See that so many of the tasks that wait have a thread on its way, if there may be any more."""
        at_work = sum(thread.thing is not None for thread in self._threads)
        busy = self.busy
        for _ in range(min(count + at_work, self._most) - busy):
            if busy >= len(self._threads):
                self._threads.append(_BodyThread(self._work))
            busy += 1
            self._called += 1
            self._calls.put(True)

    def withdraw(self, task: Callable[[T], bool]) -> list[T]:
        """Take back what waits for a task; what waits for another one goes on waiting, in its order."""
        things: list[T] = []
        others: list[tuple[Callable[..., bool], object]] = []
        while self._line:
            try:
                waiting, thing = self._line.popleft()
            except IndexError:  # a thread was faster
                break
            if waiting == task:
                things.append(cast("T", thing))
            else:
                others.append((waiting, thing))
        self._line.extendleft(reversed(others))
        self.staff(len(others))
        return things

    def lost(self, thing: object) -> None:
        """Note that a task will not end in time: another thread may take the place of its own."""
        for thread in self._threads:
            if thread.thing is thing:
                self._threads.remove(thread)
                self._called -= thread.answered + 1
                return

    def close(self) -> None:
        """Let every thread end: the free ones now, the others after their task."""
        for _ in self._threads:
            self._calls.put(False)

    def _work(self, thread: _BodyThread) -> None:
        try:
            self._welcome()
            while self._calls.get():
                if not self._work_off(thread):
                    return
                thread.answered += 1
        finally:
            self._goodbye()

    def _work_off(self, thread: _BodyThread) -> bool:
        line = self._line
        while True:
            try:
                task, thing = line.popleft()
            except IndexError:
                thread.thing = None
                return True
            thread.thing = thing
            thread.taken += 1
            if not task(thing):
                return False


class _BodyThread:
    """A thread, and what the dispatcher may know of it. Written by the thread alone."""

    def __init__(self, work: Callable[[_BodyThread], None]) -> None:
        self.thing: object = None
        self.taken = 0
        self.answered = 0
        name = f"ultimate_jobs-body-{next(_names)}"
        threading.Thread(target=work, args=(self,), name=name, daemon=True).start()
