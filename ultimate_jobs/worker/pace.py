"""When the dispatcher claims and writes next: by what it found, by failures, by what falls due."""

from __future__ import annotations

import logging
import math
import time

from ultimate_jobs.conf import Settings
from ultimate_jobs.core.records import Settlement
from ultimate_jobs.core.states import JobState
from ultimate_jobs.process.idle import Backoff, IdleWait
from ultimate_jobs.process.log import event
from ultimate_jobs.process.pulse import Pulse
from ultimate_jobs.worker.deadlines import Deadlines

SOON = 60.0
"""Seconds within which a worker comes back by itself for a job that it handed back."""


class Pace:
    """The instants of the next claim and of the next write. Used by the dispatcher.

    Args:
        worker: the id of the process.
        settings: the waits.
        deadlines: where a look for a job that falls due is kept in mind.
        pulse: told whether the database answers.

    """

    def __init__(self, worker: str, settings: Settings, deadlines: Deadlines, pulse: Pulse) -> None:
        self.next_pass = 0.0
        self.next_write = 0.0
        self._worker = worker
        self._deadlines = deadlines
        self._pulse = pulse
        self._idle = IdleWait(
            settings.poll_interval, settings.idle_poll_max, settings.idle_poll_max_wake
        )
        self._backoff = Backoff()

    def claimed(self, *, found: bool, full: bool) -> None:
        """Decide when to claim again after a pass that found something, or had all it had room for.

        A full pass looks again as soon as there is room; one that left room has seen all there is.
        """
        self._backoff.worked()
        self._pulse.answered()
        wait = self._idle.after(found=found)
        self.next_pass = 0.0 if full else time.monotonic() + wait

    def failed(self, name: str, error: Exception) -> None:
        """Leave the database alone for a while, and say so."""
        wait = self._backoff.failed()
        self._pulse.unanswered()
        self.next_pass = self.next_write = time.monotonic() + wait
        event(
            logging.ERROR,
            name,
            worker=self._worker,
            error=type(error).__name__,
            next_try_seconds=wait,
        )

    def look_now(self) -> None:
        """Claim as soon as there is room."""
        self.next_pass = 0.0

    def woken(self) -> None:
        """Claim at once, and often for a while: there is new work."""
        self._idle.woken()
        self.look_now()

    def trust(self, *, live: bool) -> None:
        """Say whether word of new work arrives."""
        self._idle.trust(live=live)
        self.look_now()

    def come_back_for(self, settlement: Settlement) -> None:
        """Look again when a job this worker handed back falls due soon; polling finds the rest."""
        seconds = settlement.wait.total_seconds()
        waits = settlement.state in (JobState.READY, JobState.SUSPENDED)
        if waits and settlement.until is None and seconds <= SOON:
            due = math.ceil((time.monotonic() + seconds) * 10) / 10
            self._deadlines.set(("due", due), due - time.monotonic(), self.look_now)
