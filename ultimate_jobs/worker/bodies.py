"""The runs that a process holds: which wait for a thread, which have one, which have ended."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from ultimate_jobs.core.prefetch import Prefetch
from ultimate_jobs.core.records import HeldClaim
from ultimate_jobs.core.settlement import NotStarted, Outcome
from ultimate_jobs.process.log import event
from ultimate_jobs.worker.held import Held
from ultimate_jobs.worker.threads import BodyThreads

HELP_AFTER = 0.005
"""Seconds without a start after which the runs that wait get every thread there may be."""

PATIENCE = 0.5
"""Seconds without a start, with no thread left, after which the runs that wait are given back."""

LOOK_EVERY = 0.004
"""Seconds between two looks at what has ended, while runs wait."""


class Bodies:
    """Hands runs to body threads and collects how they ended. Driven by the dispatcher.

    Args:
        threads: where bodies run.
        prefetch: how many may wait.
        attempt: runs a body and says how it ended; on a body thread.
        began: told, on a body thread, of a body that has a ceiling.
        ring: called, on a body thread, when the dispatcher should look at what has ended.

    """

    def __init__(
        self,
        threads: BodyThreads,
        prefetch: Prefetch,
        *,
        attempt: Callable[[Held], Outcome],
        began: Callable[[Held], None],
        ring: Callable[[], None],
    ) -> None:
        self.held: set[Held] = set()
        self.prefetch = prefetch
        self._threads = threads
        self._attempt = attempt
        self._began = began
        self._ring = ring
        self._rung = False
        self._ended: deque[tuple[Held, Outcome]] = deque()
        self._taken = 0
        self._moved_at = self._watched_from = 0.0

    @property
    def unattended(self) -> bool:
        """Whether to look without being called: while runs wait, those that end call nobody."""
        return bool(self._threads.waiting or self._ended)

    @property
    def started(self) -> int:
        """How many runs do not: their bodies run, or have ended and are not settled."""
        return max(len(self.held) - self._threads.waiting, 0)

    def facts(self) -> list[dict[str, object]]:
        """Name every run that is held, and how long each has run. Any thread."""
        held = list(self.held)
        return [{**one.facts(), "seconds": round(one.seconds, 3)} for one in held]

    def report(self, worker: str) -> None:
        """Log a line for each run that is held."""
        running = self.facts()
        event(logging.WARNING, "jobs.worker.reported", worker=worker, running=len(running))
        for run in running:
            event(logging.WARNING, "jobs.worker.holds", worker=worker, **run)

    def find(self, claims: Iterable[HeldClaim]) -> dict[HeldClaim, Held]:
        """Answer the runs of some claims, as far as they are held."""
        wanted = set(claims)
        return {held.key: held for held in self.held if held.key in wanted}

    def begin(self, runs: Sequence[Held], room: int) -> None:
        """Start runs, as many as there is room for at once; the others wait.

        What may not wait is started before what waits.
        """
        if not self._threads.waiting:
            self._moved_at = time.monotonic()
        self._threads.line_up(self._run, (held for held in runs if held.may_wait))
        self._threads.start(self._run, [held for held in runs if not held.may_wait])
        if not self.prefetch.tiny:
            self._threads.staff(min(self._threads.waiting, room))
        elif not self._threads.busy:
            self._threads.staff(1)

    def collect(self) -> list[tuple[Held, Outcome]]:
        """Answer the runs whose bodies have ended since, and how."""
        self._rung = False
        ended: list[tuple[Held, Outcome]] = []
        while self._ended:
            ended.append(self._ended.popleft())
        self.prefetch.ended([held.seconds for held, _ in ended])
        return ended

    def give_back(self) -> list[Held]:
        """Answer the runs that wait; they do so no longer."""
        return self._threads.withdraw(self._run)

    def watch(self) -> None:
        """Note that the dispatcher begins to wait, and keeps no thread from starting a body."""
        self._watched_from = time.monotonic()

    def look(self) -> list[Held]:
        """See that what waits gets on; answer the runs that are to be given back.

        A long body keeps nobody waiting: the runs behind it go to other threads, and when all of
        them are busy for long, to other workers.
        """
        if not self._threads.waiting:
            return []
        now, taken = time.monotonic(), self._threads.taken
        if taken != self._taken:
            self._taken, self._moved_at = taken, now
        if now - self._moved_at >= PATIENCE:
            self.prefetch.stuck()
            return self.give_back()
        if now - max(self._moved_at, self._watched_from) >= HELP_AFTER:
            self._threads.staff(self._threads.waiting)
        return []

    def _run(self, held: Held) -> bool:
        """Run a body. Body thread."""
        held.started_at = time.monotonic()
        if held.token.aborted:
            outcome: Outcome = NotStarted()
        else:
            if held.spec.timeout is not None:
                self._began(held)
            outcome = self._attempt(held)
        held.ended_at = time.monotonic()
        if not held.flight.land():
            return False
        self._ended.append((held, outcome))
        if not (self._rung or self._threads.waiting):
            self._rung = True
            self._ring()
        return True
