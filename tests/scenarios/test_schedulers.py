"""Schedulers that freeze, die and are told to stop at the worst moment: each occurrence once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from tests.builders import sql, wait_for_blocked, wait_until
from tests.scenarios.scene import PATIENCE, Scene
from ultimate_jobs.models import Job as JobRow, SchedulerLeader, TaskState

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.django_db(transaction=True),
]

NAMES = [f"probe.minute_{number}" for number in range(5)]
MISSED = 3
LOCK = 4711


@pytest.fixture(autouse=True)
def behind() -> None:
    """Let the probe's tasks have missed some minutes, so that they are due at once."""
    for name in NAMES:
        TaskState.objects.create(
            name=name, rule="* * * * * UTC", watermark=Now() - timedelta(minutes=MISSED)
        )


@pytest.fixture
def held_up() -> Iterator[None]:
    """Hold every fire up in the middle of its statement, for as long as the lock is held."""
    sql(
        "CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN PERFORM pg_advisory_xact_lock({LOCK}); RETURN NEW; END $$"
    )
    sql(
        "CREATE TRIGGER hold_up BEFORE UPDATE ON x_scheduler_state"
        " FOR EACH ROW EXECUTE FUNCTION hold_up()"
    )
    sql(f"SELECT pg_advisory_lock({LOCK})")
    yield
    sql("SELECT pg_advisory_unlock_all()")
    sql("DROP FUNCTION hold_up CASCADE")


def keys() -> list[str]:
    """Name the occurrences that were fired: task, instant and key."""
    found = JobRow.objects.filter(name="probe.tick").values_list("idempotency_key", flat=True)
    return list(found)


def caught_up() -> bool:
    return len(keys()) >= MISSED * len(NAMES)


def expire_the_lease() -> None:
    SchedulerLeader.objects.update(expires_at=Now() - timedelta(seconds=1))


def test_a_leader_that_is_told_to_stop_gives_the_lease_up(scene: Scene) -> None:
    with scene.scheduler() as leader:
        wait_until(caught_up, PATIENCE)
        leader.tell(signal.SIGTERM)
        assert leader.ended() == 0

    assert not SchedulerLeader.objects.exists()
    for name in ("started", "leading", "dispatched", "draining", "stopped"):
        assert f"jobs.scheduler.{name}" in leader.log


def test_a_leader_that_wakes_up_in_the_middle_of_a_round_fires_nothing_twice(
    scene: Scene,
) -> None:
    with scene.scheduler(PROBE_HOLD="1") as frozen:
        scene.wait_for_file("held")
        frozen.tell(signal.SIGSTOP)
        holder = SchedulerLeader.objects.get().holder
        expire_the_lease()
        with scene.scheduler() as standby:
            wait_until(caught_up, PATIENCE)
            JobRow.objects.update(state="done")

            scene.let_scheduler_go()
            frozen.tell(signal.SIGCONT)
            standby.tell(signal.SIGTERM)
            assert standby.ended() == 0
        wait_until(lambda: SchedulerLeader.objects.filter(holder=holder).exists(), PATIENCE)
        frozen.tell(signal.SIGTERM)
        assert frozen.ended() == 0

    assert len(set(keys())) == len(keys())


def test_a_leader_that_is_killed_in_the_middle_of_a_fire_has_fired_it_once_or_not_at_all(
    scene: Scene, held_up: None
) -> None:
    with scene.scheduler() as victim:
        wait_for_blocked(seconds=PATIENCE)
        victim.killed()
    sql(f"SELECT pg_advisory_unlock({LOCK})")
    expire_the_lease()  # waits for the end of the statement, which has renewed it
    JobRow.objects.update(state="done")
    before = SchedulerLeader.objects.get().holder

    with scene.scheduler() as heir:
        wait_until(lambda: SchedulerLeader.objects.get().holder != before, PATIENCE)
        wait_until(caught_up, PATIENCE)
        heir.tell(signal.SIGTERM)
        assert heir.ended() == 0

    assert len(set(keys())) == len(keys())
    assert {key.rpartition(":")[0].partition(":")[0] for key in keys()} == set(NAMES)


def test_a_round_that_does_not_end_is_left_behind_with_its_lease(scene: Scene) -> None:
    with scene.scheduler(PROBE_HOLD="1", DRAIN_TIMEOUT="500ms") as stuck:
        scene.wait_for_file("held")
        stuck.tell(signal.SIGTERM)
        assert stuck.ended() == 1

    assert "jobs.scheduler.drain-abandoned" in stuck.log
    assert SchedulerLeader.objects.exists()
    assert keys() == []
