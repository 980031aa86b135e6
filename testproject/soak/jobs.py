"""A job of each kind. Whatever they do leaves an `Effect`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from testproject.soak.models import Effect
from ultimate_jobs import NO_TENANT, Concurrency, Job, Retry, Run, job, task

# Every crash and every outage may cost an attempt, and none of these jobs may run out of them.
PATIENT: Final = Retry(attempts=100, backoff="fixed", delay="200ms")


@dataclass(frozen=True, slots=True)
class Task:
    """What to do: everything about it is in its key."""

    key: str


def declared(
    body: Callable[[Run[Task]], object], concurrency: Concurrency[Task] | None = None
) -> Job[Task, object]:
    return job(
        input=Task,
        tenant=NO_TENANT,
        idempotency_key=lambda task: task.key,
        retry=PATIENT,
        concurrency=concurrency,
    )(body)


def leaving(run: Run[Task], step: str) -> Callable[[], None]:
    """Answer a function that leaves an effect."""

    def leave() -> None:
        Effect.objects.create(key=run.input.key, step=step)

    return leave


@declared
def plain(run: Run[Task]) -> None:
    """Do nothing: there is only the job itself."""


@declared
def steps(run: Run[Task]) -> None:
    run.step("first", leaving(run, "first"))
    run.step("second", leaving(run, "second"))


@declared
def rest(run: Run[Task]) -> None:
    run.sleep("1s")
    run.step("rested", leaving(run, "rested"))


@declared
def ask(run: Run[Task]) -> Any:
    run.step("ask", leaving(run, "ask"))
    return run.wait_for_event(
        "answer", "soak.answer", schema=dict, match=run.input.key, timeout="1h", required=True
    )


@declared
def book(run: Run[Task]) -> None:
    run.atomic("book", leaving(run, "book"))


@partial(declared, concurrency=Concurrency(key=lambda task: task.key[-1], limit=2))
def queue_up(run: Run[Task]) -> None:
    """Wait for a slot: ten keys have two each."""
    run.atomic("queue_up", leaving(run, "queue_up"))


JOBS: Final[Mapping[str, Job[Task, object]]] = {
    "plain": plain,
    "steps": steps,
    "rest": rest,
    "ask": ask,
    "book": book,
    "queue_up": queue_up,
}
"""The job of each kind of the plan."""


@declared
def tick(run: Run[Task]) -> None:
    """Be there: the schedule asks for one each minute, whatever else goes on."""


@task(cron="* * * * *", tz="UTC", catch_up="run-all")
def every_minute(occurrence: datetime) -> list[tuple[Job[Task, object], Task]]:
    return [(tick, Task(occurrence.isoformat()))]
