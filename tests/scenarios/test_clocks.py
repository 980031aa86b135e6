"""Processes on a machine whose clock is wrong by days: what is due and what holds is the database's word."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models.functions import Now

from tests.builders import reloaded, sql, wait_until
from tests.scenarios.scene import PATIENCE, Scene
from ultimate_jobs.models import Job as JobRow, TaskState, Worker as WorkerRow

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.django_db(transaction=True),
]

LEASE = timedelta(seconds=30)
MISSED = 3
TWO_DAYS = 2 * 86_400


def database_now() -> datetime:
    ((now,),) = sql("SELECT clock_timestamp()")
    assert isinstance(now, datetime)
    return now


@pytest.mark.parametrize("wrong_by", [TWO_DAYS, -TWO_DAYS], ids=["ahead", "behind"])
def test_a_wrong_clock_on_the_wall_makes_nothing_due_and_no_lease_longer(
    scene: Scene, wrong_by: int
) -> None:
    for number in range(5):
        TaskState.objects.create(
            name=f"probe.minute_{number}",
            rule="* * * * * UTC",
            watermark=Now() - timedelta(minutes=MISSED),
        )
    later = scene.queued("tick", key="later")
    JobRow.objects.filter(id=later.id).update(run_at=Now() + timedelta(hours=1))
    running = scene.queued("patient")
    wrong = {"PROBE_CLOCK_WRONG_BY": str(wrong_by)}
    with ExitStack() as stack:
        stack.enter_context(scene.worker("--with", "relay,scheduler", **wrong))
        scene.wait_for("started")
        wait_until(WorkerRow.objects.exists, PATIENCE)
        claim, worker, now = reloaded(running), WorkerRow.objects.get(), database_now()
        assert claim.visible_at is not None
        assert now - LEASE < claim.visible_at <= now + LEASE
        assert now - LEASE < worker.expires_at <= now + LEASE

        scene.wait_for("ran", times=MISSED * 5)
        scene.let_go()
        wait_until(lambda: reloaded(running).state == "done", PATIENCE)

    assert reloaded(later).state == "ready"
    now = database_now()
    jobs = JobRow.objects.filter(name="probe.tick").exclude(id=later.id)
    fired = [occurrence(key) for key in jobs.values_list("idempotency_key", flat=True)]
    assert len(fired) >= MISSED * 5
    assert now - timedelta(hours=1) < min(fired) <= max(fired) <= now


def occurrence(key: str) -> datetime:
    """Read the instant in the key of a job that a task fired."""
    return datetime.fromtimestamp(int(key.split(":")[1]) / 1_000, UTC)
