"""Schedulers on a clock that the test moves: the database's clock and the process's are one.

clock = Clock(datetime(2026, 11, 29, 9, 39, 30, tzinfo=UTC))
scheduler = clock.scheduler(hourly)
clock.run(scheduler, minutes=3)             # a tick a second
assert fired(hourly) == [...]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.builders import Ping
from ultimate_jobs import Job
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.definitions.task import Task, task
from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.drivers.postgres.driver import PostgresDriver
from ultimate_jobs.drivers.postgres.schedule import PostgresSchedule
from ultimate_jobs.models import Job as JobRow, TaskState
from ultimate_jobs.scheduler.agenda import rule_of
from ultimate_jobs.scheduler.loop import Scheduler

START = datetime(2026, 11, 29, 9, 39, 30, tzinfo=UTC)


def at(hour: int, minute: int, second: int = 0) -> datetime:
    """An instant of the day on which the clock starts."""
    return START.replace(hour=hour, minute=minute, second=second)


class ClockedDriver(PostgresDriver):
    """The driver, with the scheduler's store on that database."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__("default")
        self._schedule = PostgresSchedule(Database(clock=now))


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def monotonic(self) -> float:
        return (self.now - START).total_seconds()

    def advance(self, **span: float) -> None:
        self.now += timedelta(**span)

    def scheduler(self, *known: Task) -> Scheduler:
        return Scheduler(ClockedDriver(lambda: self.now), known, monotonic=self.monotonic)

    def run(self, *schedulers: Scheduler, **span: float) -> None:
        """Let time pass, with a tick of every scheduler at each second."""
        for scheduler in schedulers:
            scheduler.tick()
        for _ in range(round(timedelta(**span).total_seconds())):
            self.advance(seconds=1)
            for scheduler in schedulers:
                scheduler.tick()


class Tasks:
    """Throwaway tasks, forgotten at the end of the test."""

    def __init__(self) -> None:
        self._declared: list[Task] = []

    def __call__(
        self,
        job: Job[Ping, object],
        cron: str = "* * * * *",
        *,
        inputs: Callable[[datetime], Iterable[Ping]] = lambda occurrence: [Ping("a")],
        tz: str = "UTC",
        **options: Any,
    ) -> Task:
        """Declare a task that enqueues ``job``."""
        declared = task(
            cron=cron,
            tz=tz,
            enqueue=lambda occurrence: [(job, value) for value in inputs(occurrence)],
            **{"name": f"tests.task_{len(self._declared) + 1}", **options},
        )
        self._declared.append(declared)
        return declared

    def forget(self) -> None:
        for declared in self._declared:
            tasks.discard(declared)


def fired(job: Job[Ping, object]) -> list[datetime]:
    """Answer the occurrences whose jobs were queued, in their order; each is a job's time."""
    return sorted(JobRow.objects.filter(name=job.name).values_list("run_at", flat=True))


def came_to(task: Task, watermark: datetime) -> None:
    """Write down how far a task has come."""
    TaskState.objects.update_or_create(
        name=task.name, defaults={"rule": rule_of(task), "watermark": watermark}
    )


def worked_off() -> None:
    """Let every job be done, so that no key is held any more."""
    JobRow.objects.update(state="done")
