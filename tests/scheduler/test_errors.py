"""An error in one task stays with that task; an error of the database stays with that round."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.db import transaction

from tests.builders import PATIENCE, Declarations, Ping, second_connection, sql, wait_until
from tests.scheduler.virtual import Clock, Tasks, at, fired
from tests.worker.running import Events
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import SchedulerLeader
from ultimate_jobs.scheduler.loop import Scheduler

pytestmark = pytest.mark.django_db(transaction=True)


class Fault:
    """Entries that cannot be built, until they are repaired."""

    def __init__(self) -> None:
        self.asked = 0
        self.repaired = False

    def __call__(self, occurrence: datetime) -> list[Ping]:
        self.asked += 1
        if self.repaired:
            return [Ping("a")]
        raise ZeroDivisionError("with a secret")


@pytest.fixture
def refusing() -> Iterator[str]:
    """Let the database refuse the jobs of one name."""
    sql("ALTER TABLE x_jobs ADD CONSTRAINT not_here CHECK (name <> 'tests.refused')")
    yield "tests.refused"
    sql("ALTER TABLE x_jobs DROP CONSTRAINT not_here")


def test_a_task_that_raises_holds_up_no_other(
    declare: Declarations, declare_task: Tasks, clock: Clock, events: Events
) -> None:
    ping, never = declare(), declare()
    faulty = declare_task(never, inputs=Fault())
    leader = clock.scheduler(faulty, declare_task(ping), declare_task(ping))

    clock.run(leader, seconds=30)

    assert fired(ping) == [at(9, 40)] * 2
    assert fired(never) == []
    (said,) = events.named("jobs.scheduler.task-failed")
    assert (said["task"], said["code"], said["error"]) == (
        faulty.name,
        "X_TASK_FIRE_FAILED",
        "ZeroDivisionError",
    )
    assert said["cause"]
    assert said["fix"]
    assert "secret" not in events.lines()


def test_a_repaired_task_fires_what_its_catch_up_says(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping, fault = declare(), Fault()
    leader = clock.scheduler(declare_task(ping, inputs=fault, catch_up="run-all"))
    clock.run(leader, minutes=3)

    fault.repaired = True
    clock.run(leader, minutes=1)

    assert fired(ping)[:3] == [at(9, 40), at(9, 41), at(9, 42)]


def test_a_faulty_task_is_asked_ever_less_often(
    declare: Declarations, declare_task: Tasks, clock: Clock, events: Events
) -> None:
    fault = Fault()
    leader = clock.scheduler(declare_task(declare(), inputs=fault))

    clock.run(leader, minutes=10)

    waits = [said["next_try_seconds"] for said in events.named("jobs.scheduler.task-failed")]
    assert waits[:4] == [0.5, 1, 2, 4]
    assert waits[-1] == 60
    assert fault.asked == len(waits) < 20


def test_a_job_that_the_database_refuses_holds_up_no_other_task(
    declare: Declarations, declare_task: Tasks, clock: Clock, events: Events, refusing: str
) -> None:
    ping, refused = declare(), declare(name=refusing)
    tasks = [declare_task(refused if n == 17 else ping) for n in range(40)]
    leader = clock.scheduler(*tasks)

    clock.run(leader, seconds=30)

    assert fired(ping) == [at(9, 40)] * 39
    assert fired(refused) == []
    (said,) = events.named("jobs.scheduler.task-failed")
    assert (said["task"], said["code"]) == (tasks[17].name, "X_TASK_FIRE_FAILED")
    assert "not_here" in said["cause"]


def test_an_input_that_is_refused_is_told_with_its_own_code(
    declare: Declarations, declare_task: Tasks, clock: Clock, events: Events
) -> None:
    wrong: Any = {"no": "ping"}
    leader = clock.scheduler(declare_task(declare(), inputs=lambda occurrence: [wrong]))

    clock.run(leader, seconds=30)

    (said,) = events.named("jobs.scheduler.task-failed")
    assert said["code"] == "X_JOB_INPUT_INVALID"


def test_a_transaction_that_a_task_leaves_open_holds_no_fire_back(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping = declare()

    def inputs(occurrence: datetime) -> list[Ping]:
        transaction.set_autocommit(False)
        return [Ping("a")]

    leader = clock.scheduler(declare_task(ping, inputs=inputs), declare_task(ping))
    second_connection(lambda: clock.run(leader, minutes=1)).result(PATIENCE)

    assert fired(ping) == [at(9, 40)] * 2


def test_a_round_that_fails_is_told_and_tried_again(
    declare: Declarations, declare_task: Tasks, events: Events
) -> None:
    leader = Scheduler(get_driver(), [declare_task(declare())])
    sql("ALTER TABLE x_scheduler_leader RENAME TO hidden")
    try:
        run = second_connection(leader.run)
        said = events.wait_for("jobs.scheduler.tick-failed")[0]
    finally:
        sql("ALTER TABLE hidden RENAME TO x_scheduler_leader")
    wait_until(SchedulerLeader.objects.exists)
    leader.stop()
    run.result(10)

    assert (said["code"], said["error"]) == ("X_SCHEDULER_FAILED", "ProgrammingError")
    assert said["fix"]


def test_a_lost_connection_is_told_and_replaced(
    declare: Declarations, declare_task: Tasks, events: Events, clock: Clock
) -> None:
    leader = clock.scheduler(declare_task(declare()))
    run = second_connection(leader.run)
    wait_until(lambda: leader.leading)
    mine = sql("SELECT pg_backend_pid()")[0][0]
    sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> %s",
        [mine],
    )
    clock.advance(seconds=11)

    said = events.wait_for("jobs.scheduler.tick-failed")[0]
    before = SchedulerLeader.objects.get().expires_at
    clock.advance(seconds=11)
    wait_until(lambda: SchedulerLeader.objects.get().expires_at > before)
    leader.stop()
    run.result(10)

    assert said["code"] == "X_DRIVER_UNAVAILABLE"
