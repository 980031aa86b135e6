"""Which ended jobs this worker tells of: those that somebody said he waits for."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from uuid import UUID

from ultimate_jobs.core.records import Topic
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.process.log import event
from ultimate_jobs.process.waits import asked_for
from ultimate_jobs.process.wake import Subscriber
from ultimate_jobs.worker.settle import Ended, Fate

REMEMBER = 30.0
"""Seconds that a job is awaited unless it is asked for again."""

MOST = 10_000
"""Awaited jobs that are kept in mind; who asks for one more looks by himself."""


class Waiters:
    """Hears who waits for which job, on the listener's thread, and answers on the dispatcher's."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._awaited: dict[UUID, float] = {}

    def subscriber(self) -> Subscriber:
        """Say what word the worker wants."""
        return Subscriber(Topic.RESULTS, self.heard, lambda live: None)

    def heard(self, word: str) -> None:
        """Keep in mind that somebody waits for a job. Any thread."""
        job, now = asked_for(word), time.monotonic()
        if job is None:
            return
        if len(self._awaited) >= MOST:
            self._awaited = {job: until for job, until in self._awaited.items() if until > now}
        if len(self._awaited) < MOST:
            self._awaited[job] = now + REMEMBER

    def tell(self, written: Sequence[tuple[Ended, Fate]]) -> None:
        """Tell of the jobs among these that have ended for good and that somebody waits for."""
        if not self._awaited:
            return
        told = [
            str(ended.settling.id)
            for ended, fate in written
            if fate is Fate.WRITTEN
            and ended.verdict.ending is not None
            and self._awaited.pop(ended.settling.id, None) is not None
        ]
        if not told:
            return
        try:
            self._driver.wake.tell(told)
        except Exception as error:  # noqa: BLE001 - whoever waits looks by himself
            event(logging.DEBUG, "jobs.results.untold", error=type(error).__name__)
