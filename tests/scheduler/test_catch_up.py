"""After any downtime the catch-up is what the task declares, at a cost that is always the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.builders import Declarations
from tests.scheduler.virtual import Clock, Tasks, came_to, fired, worked_off
from tests.worker.running import Events, recorded
from ultimate_jobs.models import TaskState

pytestmark = pytest.mark.django_db(transaction=True)

TWO_YEARS_AGO = datetime(2024, 11, 29, tzinfo=UTC)
NOW = datetime(2026, 11, 29, 0, 0, 30, tzinfo=UTC)
LATEST = datetime(2026, 11, 29, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

CAUGHT_UP = {
    "skip": [LATEST],
    "run-once": [TWO_YEARS_AGO + MINUTE],
    "run-all": [LATEST - n * MINUTE for n in range(9, -1, -1)],
}


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.mark.parametrize("catch_up", CAUGHT_UP)
def test_two_years_of_missed_minutes(
    declare: Declarations, declare_task: Tasks, clock: Clock, catch_up: str
) -> None:
    ping = declare()
    task = declare_task(ping, catch_up=catch_up)
    came_to(task, TWO_YEARS_AGO)
    scheduler = clock.scheduler(task)

    scheduler.tick()

    assert fired(ping) == CAUGHT_UP[catch_up]
    assert TaskState.objects.get(name=task.name).watermark == LATEST

    clock.run(scheduler, seconds=30)
    assert fired(ping) == [*CAUGHT_UP[catch_up], LATEST + MINUTE]


@pytest.mark.parametrize("catch_up", CAUGHT_UP)
def test_what_was_caught_up_is_not_caught_up_again(
    declare: Declarations, declare_task: Tasks, clock: Clock, catch_up: str
) -> None:
    ping = declare()
    task = declare_task(ping, catch_up=catch_up)
    came_to(task, TWO_YEARS_AGO)
    first = clock.scheduler(task)
    first.tick()
    first.stop()
    first.run()
    worked_off()

    clock.run(clock.scheduler(task), seconds=20)

    assert fired(ping) == CAUGHT_UP[catch_up]


def test_run_all_is_bounded_by_its_declaration(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping = declare()
    task = declare_task(ping, catch_up="run-all", max_catch_up=3)
    came_to(task, TWO_YEARS_AGO)

    clock.scheduler(task).tick()

    assert fired(ping) == [LATEST - 2 * MINUTE, LATEST - MINUTE, LATEST]


def test_many_tasks_with_years_behind_them_are_caught_up_in_a_few_statements(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping = declare()
    tasks = [declare_task(ping, catch_up="run-once") for _ in range(300)]
    for task in tasks:
        came_to(task, TWO_YEARS_AGO)
    statements: list[tuple[float, str]] = []

    with recorded(statements):
        clock.scheduler(*tasks).tick()

    assert fired(ping) == [TWO_YEARS_AGO + MINUTE] * 300
    assert len(statements) == 3, "the lease, the watermarks, the fire"


def test_a_watermark_in_the_future_is_reported(
    declare: Declarations, declare_task: Tasks, clock: Clock, events: Events
) -> None:
    ping = declare()
    ahead, ordinary = declare_task(ping), declare_task(ping)
    came_to(ahead, NOW + timedelta(days=365))

    clock.run(clock.scheduler(ahead, ordinary), seconds=30)

    (said,) = events.named("jobs.scheduler.task-failed")
    assert (said["task"], said["code"]) == (ahead.name, "X_TASK_WATERMARK_AHEAD")
    assert "x_scheduler_state" in said["fix"]
    assert fired(ping) == [LATEST + MINUTE], "of the other one"
