"""Who dispatches, and that each occurrence is fired once whoever does."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Event

import pytest

from tests.builders import PATIENCE, Declarations, Ping, at_once, second_connection
from tests.scheduler.virtual import Clock, Tasks, at, came_to, fired, worked_off
from tests.worker.running import Events, Gate
from ultimate_jobs.core.dispatch import TaskFire
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.occurrence import prepare_occurrence
from ultimate_jobs.models import Job as JobRow, SchedulerLeader
from ultimate_jobs.scheduler.leadership import LEASE
from ultimate_jobs.scheduler.loop import Scheduler

pytestmark = pytest.mark.django_db(transaction=True)


def test_one_leads_and_the_others_stand_by(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping = declare()
    task = declare_task(ping)
    first, second = clock.scheduler(task), clock.scheduler(task)

    clock.run(first, second, minutes=2)

    assert (first.leading, second.leading) == (True, False)
    assert SchedulerLeader.objects.get().holder == first.id
    assert fired(ping) == [at(9, 40), at(9, 41)]


def test_a_standby_takes_over_when_the_lease_has_run_out(
    declare: Declarations, declare_task: Tasks, clock: Clock, events: Events
) -> None:
    ping = declare()
    task = declare_task(ping)
    dead, standby = clock.scheduler(task), clock.scheduler(task)
    clock.run(dead, standby, seconds=5)

    clock.run(standby, seconds=24)
    assert (dead.leading, standby.leading) == (True, False)

    clock.run(standby, seconds=16)
    assert standby.leading
    assert fired(ping) == [at(9, 40)]
    assert [said["scheduler"] for said in events.named("jobs.scheduler.leading")] == [
        dead.id,
        standby.id,
    ]


def test_a_frozen_leader_wakes_up_and_fires_nothing_stale(
    declare: Declarations, declare_task: Tasks, clock: Clock, events: Events
) -> None:
    ping = declare()
    tasks = [declare_task(ping) for _ in range(5)]
    frozen, standby = clock.scheduler(*tasks), clock.scheduler(*tasks)
    clock.run(frozen, standby, minutes=1)
    clock.run(standby, minutes=2)
    worked_off()

    clock.run(frozen, standby, minutes=1)

    assert fired(ping) == [at(9, minute) for minute in (40, 41, 42, 43) for _ in tasks]
    assert (frozen.leading, standby.leading) == (False, True)
    assert [said["scheduler"] for said in events.named("jobs.scheduler.leadership-lost")] == [
        frozen.id
    ]


def test_a_leader_that_still_trusts_its_lease_loses_it_at_the_fire(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    """The statement itself asks for the lease: trust in memory is never the last word."""
    ping = declare()
    task = declare_task(ping)
    trusting = clock.scheduler(task)
    clock.run(trusting, seconds=29)
    SchedulerLeader.objects.update(holder="another")

    clock.run(trusting, seconds=1)

    assert fired(ping) == []
    assert not trusting.leading


def test_a_leader_whose_watermarks_are_out_of_date_fires_nothing_twice(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    """Even with the lease: the watermark is the fence, and what it says is read again."""
    ping = declare()
    task = declare_task(ping)
    leader = clock.scheduler(task)
    clock.run(leader, seconds=29)
    came_to(task, at(9, 40))

    clock.run(leader, seconds=1)
    assert fired(ping) == []

    clock.run(leader, minutes=1)
    assert fired(ping) == [at(9, 41)]


def test_of_two_fires_at_one_moment_one_moves_the_watermark(
    declare: Declarations, declare_task: Tasks
) -> None:
    ping = declare()
    tasks = [declare_task(ping) for _ in range(20)]
    for task in tasks:
        came_to(task, at(9, 39))
    store = get_driver().schedule
    store.lead("both", LEASE)

    def fire() -> int:
        fires = [
            TaskFire(
                task.name, at(9, 39), at(9, 40), at(9, 40), prepare_occurrence(task, at(9, 40))
            )
            for task in tasks
        ]
        return sum(one.moved for one in store.fire("both", LEASE, fires).fired.values())

    moved = at_once(*[fire] * 4)

    assert sorted(moved) == [0, 0, 0, 20]
    assert fired(ping) == [at(9, 40)] * 20


def test_of_many_that_want_the_lease_one_gets_it() -> None:
    store = get_driver().schedule

    granted = at_once(*[lambda n=n: store.lead(f"s-{n}", LEASE).granted for n in range(6)])

    assert sorted(granted) == [False] * 5 + [True]


def test_a_lease_goes_by_the_databases_clock() -> None:
    store = get_driver().schedule
    assert store.lead("first", timedelta(hours=1)).granted
    assert not store.lead("second", LEASE).granted
    assert store.lead("first", timedelta(milliseconds=-1)).granted
    assert store.lead("second", LEASE).granted
    assert not store.lead("first", LEASE).granted


def test_a_stopped_leader_gives_the_lease_up(
    declare: Declarations, declare_task: Tasks, clock: Clock, events: Events
) -> None:
    task = declare_task(declare())
    first, second = clock.scheduler(task), clock.scheduler(task)
    first.tick()
    second.tick()

    first.stop()
    first.run()
    assert not SchedulerLeader.objects.exists()

    clock.run(second, seconds=10)
    assert second.leading
    assert events.named("jobs.scheduler.draining") == [{"scheduler": first.id}]


def test_a_standby_that_stops_leaves_the_lease_alone(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    task = declare_task(declare())
    first, second = clock.scheduler(task), clock.scheduler(task)
    first.tick()
    second.tick()

    second.stop()
    second.run()

    assert SchedulerLeader.objects.get().holder == first.id


def test_three_schedulers_one_frozen_and_one_killed_fire_each_occurrence_once(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping = declare()
    tasks = [declare_task(ping) for _ in range(5)]
    frozen, killed, last = (clock.scheduler(*tasks) for _ in range(3))

    def pass_time(*awake: Scheduler, **span: float) -> None:
        clock.run(*awake, **span)
        worked_off()

    pass_time(frozen, killed, last, minutes=3)
    assert frozen.leading
    pass_time(killed, last, seconds=90)
    pass_time(frozen, killed, last, minutes=2.5)
    survivors = [one for one in (frozen, last) if not one.leading]
    pass_time(*survivors, minutes=3)

    keys = list(JobRow.objects.values_list("idempotency_key", flat=True))
    assert len(set(keys)) == len(keys) == 50
    assert fired(ping) == [at(9, minute) for minute in range(40, 50) for _ in tasks]


def test_a_tick_during_a_round_waits_for_that_round(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    gate, asked = Gate(), Event()
    built: list[datetime] = []

    def inputs(occurrence: datetime) -> list[Ping]:
        built.append(occurrence)
        gate.hold()
        return [Ping("a")]

    def another() -> object:
        asked.set()
        return leader.tick()

    ping = declare()
    leader = clock.scheduler(declare_task(ping, inputs=inputs))
    clock.run(leader, seconds=29)
    clock.advance(seconds=1)
    first = second_connection(leader.tick)
    gate.arrived()
    second = second_connection(another)
    assert asked.wait(PATIENCE)
    assert not second.done()
    gate.open()

    assert first.result(PATIENCE).jobs == 1
    second.result(PATIENCE)
    assert built == fired(ping) == [at(9, 40)]
