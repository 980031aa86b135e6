"""What is fired, when, and that it is fired once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pytest_django import Settings

from tests.builders import PATIENCE, Declarations, Ping, second_connection
from tests.scheduler.virtual import START, Clock, Tasks, at, came_to, fired, worked_off
from ultimate_jobs.models import Job as JobRow, TaskState

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_task_that_is_seen_for_the_first_time_starts_with_its_next_occurrence(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping = declare()
    scheduler = clock.scheduler(declare_task(ping, "*/10 * * * *"))

    clock.run(scheduler, seconds=29)
    assert fired(ping) == []

    clock.run(scheduler, seconds=1)
    assert fired(ping) == [at(9, 40)]


def test_arming_is_no_fire(declare: Declarations, declare_task: Tasks, clock: Clock) -> None:
    task = declare_task(declare(), "*/10 * * * *")

    clock.scheduler(task).tick()

    state = TaskState.objects.get(name=task.name)
    assert (state.last_fired, state.fired_at) == (None, None)
    assert START <= state.watermark < at(9, 40)


def test_every_occurrence_is_fired_with_its_own_time_and_key(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping = declare()
    task = declare_task(ping, inputs=lambda occurrence: [Ping(f"for {occurrence:%H:%M}")])

    clock.run(clock.scheduler(task), minutes=3)

    rows = JobRow.objects.filter(name=ping.name).order_by("run_at")
    assert [row.run_at for row in rows] == [at(9, 40), at(9, 41), at(9, 42)]
    assert [row.idempotency_key for row in rows] == [
        f"{task.name}:{int(row.run_at.timestamp() * 1000)}:for {row.run_at:%H:%M}" for row in rows
    ]
    assert {row.state for row in rows} == {"ready"}
    assert [row.input["key"] for row in rows] == ["for 09:40", "for 09:41", "for 09:42"]


def test_a_fire_is_remembered_with_its_occurrence(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    task = declare_task(declare())

    clock.run(clock.scheduler(task), seconds=45)

    state = TaskState.objects.get(name=task.name)
    assert (state.watermark, state.last_fired, state.fired_at) == (at(9, 40),) * 3


def test_one_task_may_queue_several_jobs_and_none(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    many, none = declare(), declare()
    both = declare_task(many, inputs=lambda occurrence: [Ping(f"k-{n}") for n in range(3)])
    empty = declare_task(none, inputs=lambda occurrence: [])

    clock.run(clock.scheduler(both, empty), minutes=1)

    assert fired(many) == [at(9, 40)] * 3
    state = TaskState.objects.get(name=empty.name)
    assert (state.watermark, state.last_fired) == (at(9, 40), None)


def test_another_scheduler_begins_where_the_first_one_ended(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping = declare()
    task = declare_task(ping)
    first = clock.scheduler(task)
    clock.run(first, minutes=2)
    first.stop()
    first.run()
    worked_off()

    clock.run(clock.scheduler(task), minutes=1)

    assert fired(ping) == [at(9, 40), at(9, 41), at(9, 42)]


def test_an_occurrence_that_was_fired_and_worked_off_is_not_fired_again(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping = declare()
    task = declare_task(ping)
    clock.run(clock.scheduler(task), seconds=30)
    JobRow.objects.all().delete()
    clock.advance(minutes=0.9)

    clock.scheduler(task).tick()

    assert fired(ping) == []


@pytest.mark.parametrize("change", [{"cron": "*/20 * * * *"}, {"tz": "Asia/Kolkata"}])
def test_a_changed_rule_fires_nothing_of_its_past(
    declare: Declarations, declare_task: Tasks, clock: Clock, change: dict[str, str]
) -> None:
    ping = declare()
    before = declare_task(ping, "0 9 * * *", name="tests.changing")
    came_to(before, START - timedelta(days=30))
    declare_task.forget()
    rule = {"cron": "0 9 * * *", "tz": "UTC", **change}
    after = declare_task(ping, rule["cron"], tz=rule["tz"], name="tests.changing")

    clock.run(clock.scheduler(after), seconds=5)

    assert fired(ping) == []
    state = TaskState.objects.get(name="tests.changing")
    assert START <= state.watermark < after.schedule.next_after(START)


def test_a_project_without_time_zones_fires_at_the_same_instants(
    declare: Declarations, declare_task: Tasks, clock: Clock, settings: Settings
) -> None:
    ping = declare()
    task = declare_task(ping, "40 4 * * *", tz="America/New_York")

    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Kolkata"
    second_connection(lambda: clock.run(clock.scheduler(task), seconds=45)).result(PATIENCE)
    settings.USE_TZ = True

    assert fired(ping) == [at(9, 40)]
