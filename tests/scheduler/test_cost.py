"""What a scheduler asks of the database, counted in statements."""

from __future__ import annotations

import pytest

from tests.builders import Declarations
from tests.scheduler.virtual import Clock, Tasks, at, fired
from tests.worker.running import Statement, recorded
from ultimate_jobs.operate.tasks import pause_task

pytestmark = pytest.mark.django_db(transaction=True)

LEASE = "-- Lead, or go on leading"
FIRE = "-- Fire what is due of many tasks"


def kinds(statements: list[Statement]) -> list[str]:
    return [text.partition(":")[0] for _, text in statements]


@pytest.mark.parametrize("count", [0, 1, pytest.param(1_000, marks=pytest.mark.slow)])
def test_an_idle_minute_is_six_statements_whatever_the_number_of_tasks(
    declare: Declarations, declare_task: Tasks, clock: Clock, count: int
) -> None:
    ping = declare()
    leader = clock.scheduler(*[declare_task(ping, "0 12 * * *") for _ in range(count)])
    leader.tick()
    statements: list[Statement] = []

    with recorded(statements):
        clock.run(leader, minutes=1)

    assert kinds(statements) == [LEASE] * 6


def test_a_standby_asks_as_seldom(declare: Declarations, declare_task: Tasks, clock: Clock) -> None:
    task = declare_task(declare())
    leader, standby = clock.scheduler(task), clock.scheduler(task)
    leader.tick()
    standby.tick()
    statements: list[Statement] = []

    with recorded(statements):
        clock.run(standby, seconds=29)

    assert kinds(statements) == [LEASE] * 2


def test_a_minute_with_a_fire_is_no_more_than_that(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    leader = clock.scheduler(declare_task(declare()))
    leader.tick()
    statements: list[Statement] = []

    with recorded(statements):
        clock.run(leader, minutes=1)

    assert sorted(kinds(statements)) == sorted([FIRE, *[LEASE] * 5]), "a fire renews the lease"


@pytest.mark.slow
def test_a_thousand_tasks_that_are_due_at_once_are_one_statement(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping = declare()
    leader = clock.scheduler(*[declare_task(ping) for _ in range(1_000)])
    clock.run(leader, seconds=29)
    statements: list[Statement] = []

    with recorded(statements):
        clock.run(leader, seconds=1)

    assert fired(ping) == [at(9, 40)] * 1_000
    assert kinds(statements).count(FIRE) == 1
    assert len(statements) <= 2


def test_a_paused_task_that_is_due_is_not_asked_about_every_second(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    task = declare_task(declare())
    leader = clock.scheduler(task)
    leader.tick()
    pause_task(task.name)
    statements: list[Statement] = []

    with recorded(statements):
        clock.run(leader, minutes=3)

    assert len(statements) <= 3 * 6 + 1
