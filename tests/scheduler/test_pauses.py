"""A paused task is not fired; on resume its own catch-up decides."""

from __future__ import annotations

import pytest

from tests.builders import Declarations
from tests.scheduler.virtual import Clock, Tasks, at, fired
from ultimate_jobs.models import Pause, TaskState
from ultimate_jobs.operate.tasks import pause_task, resume_task

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_paused_task_is_not_fired_and_keeps_its_watermark(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    ping, other = declare(), declare()
    task = declare_task(ping)
    leader = clock.scheduler(task, declare_task(other))
    clock.run(leader, minutes=1)

    assert pause_task(task.name, "month's end").details["changed"]
    clock.run(leader, minutes=2)

    assert fired(ping) == [at(9, 40)]
    assert fired(other) == [at(9, 40), at(9, 41), at(9, 42)]
    assert TaskState.objects.get(name=task.name).watermark == at(9, 40)
    assert Pause.objects.get().reason == "month's end"


@pytest.mark.parametrize(
    ("catch_up", "minutes"),
    [("skip", [45]), ("run-once", [41]), ("run-all", [41, 42, 43, 44, 45])],
)
def test_on_resume_the_catch_up_decides(
    declare: Declarations,
    declare_task: Tasks,
    clock: Clock,
    catch_up: str,
    minutes: list[int],
) -> None:
    ping = declare()
    task = declare_task(ping, catch_up=catch_up)
    leader = clock.scheduler(task)
    clock.run(leader, minutes=1)
    pause_task(task.name)
    clock.run(leader, minutes=5)

    assert resume_task(task.name).details["changed"]
    clock.run(leader, seconds=15)

    assert fired(ping) == [at(9, 40), *[at(9, minute) for minute in minutes]]


def test_pausing_and_resuming_twice_is_fine(declare: Declarations, declare_task: Tasks) -> None:
    task = declare_task(declare())

    paused = [pause_task(task.name).details["changed"] for _ in range(2)]
    assert paused == [True, False]
    resumed = [resume_task(task.name).details["changed"] for _ in range(2)]
    assert resumed == [True, False]


def test_a_pause_between_the_look_and_the_fire_counts(
    declare: Declarations, declare_task: Tasks, clock: Clock
) -> None:
    """The statement that fires asks; nothing that was read before has the last word."""
    ping = declare()
    task = declare_task(ping)
    leader = clock.scheduler(task)
    clock.run(leader, seconds=29)

    pause_task(task.name)
    clock.run(leader, seconds=1)

    assert fired(ping) == []
