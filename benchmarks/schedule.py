"""Many tasks that are due in the same minute: how many statements, and how many seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta

from django.db.models.functions import Now

from tests.worker.running import Statement, recorded
from ultimate_jobs import NO_TENANT, Retry, Run, job
from ultimate_jobs.definitions.registry import registry, tasks
from ultimate_jobs.definitions.task import Task, task
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import Job as JobRow, TaskState
from ultimate_jobs.scheduler.agenda import rule_of
from ultimate_jobs.scheduler.loop import Scheduler

BEHIND = {"a minute": timedelta(minutes=1), "two years": timedelta(days=2 * 365)}


@dataclass(frozen=True, slots=True)
class Nothing:
    """An empty input."""


def main(count: str = "1000") -> Iterator[str]:
    """Say what a tick does over ``count`` tasks that are a minute behind, and two years."""
    for what, behind in BEHIND.items():
        with ExitStack() as stack:
            statements, seconds = _tick(_declared(int(count), stack), behind)
            jobs, _ = JobRow.objects.all().delete()
        yield (
            f"{count} tasks, {what} behind: {jobs} jobs, {statements} statements, {seconds:.3f} s"
        )


def _declared(count: int, stack: ExitStack) -> list[Task]:
    @job(
        name="benchmarks.nothing",
        input=Nothing,
        tenant=NO_TENANT,
        idempotency_key=lambda i: "nothing",
        retry=Retry(),
    )
    def nothing(run: Run[Nothing]) -> None: ...

    stack.callback(registry.discard, nothing)
    declared = []
    for number in range(count):
        one = task(
            name=f"benchmarks.task_{number}",
            cron="* * * * *",
            tz="UTC",
            enqueue=lambda occurrence: [(nothing, Nothing())],
        )
        stack.callback(tasks.discard, one)
        declared.append(one)
    return declared


def _tick(declared: list[Task], behind: timedelta) -> tuple[int, float]:
    TaskState.objects.all().delete()
    TaskState.objects.bulk_create(
        TaskState(name=one.name, rule=rule_of(one), watermark=Now() - behind) for one in declared
    )
    scheduler = Scheduler(get_driver(), declared)
    statements: list[Statement] = []
    with recorded(statements):
        began = time.perf_counter()
        scheduler.tick()
        seconds = time.perf_counter() - began
    scheduler.stop()
    scheduler.run()
    return len(statements), seconds
