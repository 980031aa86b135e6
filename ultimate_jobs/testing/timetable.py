"""Tasks that fire as the clock of a test passes their occurrences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import datetime

from ultimate_jobs.core.dispatch import ArmedTask, TaskFire
from ultimate_jobs.definitions.task import Task
from ultimate_jobs.drivers.base import Schedule
from ultimate_jobs.enqueue.occurrence import prepare_occurrence
from ultimate_jobs.scheduler.agenda import rule_of
from ultimate_jobs.scheduler.leadership import LEASE
from ultimate_jobs.testing.clock import Clock

HOLDER = "test"


class Timetable:
    """A scheduler that is never away: each occurrence fires when the clock gets there.

    Args:
        schedule: where fires are stored.
        clock: the test's time.
        session: what a fire happens in.

    """

    def __init__(
        self,
        schedule: Schedule,
        clock: Clock,
        session: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._schedule = schedule
        self._clock = clock
        self._session = session

    def arm(self, tasks: Iterable[Task]) -> None:
        """Begin with the next occurrence of each task after now."""
        now = self._clock.now()
        armed = {task.name: task for task in tasks}
        with self._session():
            self._schedule.lead(HOLDER, LEASE)
            watermarks = self._schedule.watermarks(
                [ArmedTask(name, rule_of(task), now) for name, task in armed.items()]
            )
        for name, task in armed.items():
            self._wait_for(task, watermarks[name])

    def _wait_for(self, task: Task, watermark: datetime) -> None:
        occurrence = task.next_run(max(watermark, self._clock.now()))
        seconds = (occurrence - self._clock.now()).total_seconds()
        self._clock.deadlines.set(task, seconds, lambda: self._fire(task, watermark, occurrence))

    def _fire(self, task: Task, watermark: datetime, occurrence: datetime) -> None:
        with self._session():
            batches = prepare_occurrence(task, occurrence)
            fire = TaskFire(
                task.name, watermark, occurrence, occurrence if batches else None, batches
            )
            self._schedule.lead(HOLDER, LEASE)
            fired = self._schedule.fire(HOLDER, LEASE, [fire]).fired[task.name]
        self._wait_for(task, occurrence if fired.moved else watermark)
