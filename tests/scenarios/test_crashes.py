"""Processes that die or freeze at the worst moment: the work goes on, and is counted right."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from django.db import transaction

from tests.builders import Ping, declared, reloaded, staged, states, wait_until
from tests.scenarios.scene import PATIENCE, Scene
from ultimate_jobs import Job
from ultimate_jobs.models import Counter, Job as JobRow, OutboxEntry, Worker as WorkerRow

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.django_db(transaction=True),
]


def test_a_job_whose_worker_was_killed_is_finished_by_another(scene: Scene) -> None:
    row = scene.queued("patient")
    with scene.worker() as victim:
        scene.wait_for("started")
        victim.killed()
    assert reloaded(row).state == "running"

    scene.leases_run_out()
    with scene.worker():
        scene.wait_for("started", attempt=2)
        scene.let_go(attempt=2)
        wait_until(lambda: states() == {"done": 1}, PATIENCE)

    assert scene.moves() == [("started", 1), ("started", 2), ("finished", 2)]
    assert (reloaded(row).attempt, reloaded(row).result) == (2, "of attempt 2")


def test_a_job_is_found_although_its_dead_worker_is_on_no_list(scene: Scene) -> None:
    row = scene.queued("patient")
    with scene.worker(HEARTBEAT_INTERVAL="50ms") as victim:
        scene.wait_for("started")
        wait_until(WorkerRow.objects.exists, PATIENCE)
        victim.killed()
    scene.leases_run_out()
    WorkerRow.objects.all().delete()

    scene.let_go(attempt=2)
    with scene.worker():
        wait_until(lambda: reloaded(row).state == "done", PATIENCE)

    assert reloaded(row).attempt == 2


def test_a_job_that_kills_every_worker_starts_as_often_as_declared_and_is_buried(
    scene: Scene,
) -> None:
    row = scene.queued("crash", attempts=2)
    for attempt in (1, 2):
        with scene.worker() as victim:
            assert victim.ended() == -signal.SIGKILL
        assert (reloaded(row).state, reloaded(row).attempt) == ("running", attempt)
        scene.leases_run_out()

    with scene.worker() as witness:
        wait_until(lambda: states() == {"dead": 1}, PATIENCE)
        witness.tell(signal.SIGTERM)
        assert witness.ended() == 0

    starts = [(line["attempt"], line["final"]) for line in scene.ledger()]
    assert starts == [(1, False), (2, True)]
    assert str(reloaded(row).last_error).startswith("X_JOB_LEASE_LOST")
    assert reloaded(row).attempt == 2
    assert "jobs.claim.exhausted" in witness.log


def test_a_worker_that_wakes_up_after_its_lease_changes_nothing(scene: Scene) -> None:
    row = scene.queued("stubborn")
    with scene.worker() as frozen, ExitStack() as later:
        scene.wait_for("started")
        holder = reloaded(row).claimed_by
        frozen.tell(signal.SIGSTOP)
        scene.leases_run_out()
        later.enter_context(scene.worker())
        scene.wait_for("started", attempt=2)

        frozen.tell(signal.SIGCONT)
        scene.let_go(attempt=1)
        scene.wait_for("finished", attempt=1)
        frozen.tell(signal.SIGTERM)
        assert frozen.ended() == 0
        assert "jobs.settle.unowned" in frozen.log
        assert (reloaded(row).state, reloaded(row).claim) == ("running", 2)
        assert reloaded(row).claimed_by != holder

        scene.let_go(attempt=2)
        wait_until(lambda: states() == {"done": 1}, PATIENCE)

    assert reloaded(row).result == "of attempt 2"
    assert Counter.objects.get().done == 1


def stage(handle: Job[Ping, object], *keys: str) -> set[str]:
    with transaction.atomic():
        return {str(answer.id) for answer in handle.enqueue_many([Ping(key) for key in keys])}


@contextmanager
def held_back(count: int) -> Iterator[None]:
    """Hold the newest staged rows, so that no relay publishes everything."""
    newest = OutboxEntry.objects.order_by("-staged_at", "-id")[:count]
    with transaction.atomic():
        assert len(newest.select_for_update()) == count
        yield


def published(count: int) -> Callable[[], bool]:
    return lambda: JobRow.objects.count() > count


def test_relays_killed_again_and_again_publish_every_row_once(scene: Scene) -> None:
    keys = [f"k-{n:04}" for n in range(1_000)]
    with declared(name="probe.tick") as tick:
        ids = stage(tick, *keys[:600])
        for part in range(4):
            ids |= stage(tick, *keys[600 + 100 * part : 700 + 100 * part])
            before = JobRow.objects.count()
            with held_back(50), scene.running("jobs_relay") as relay:
                wait_until(published(before + 20), PATIENCE)
                relay.killed()
    assert len(staged()) >= 50, "the last relay was killed in the middle"

    scene.done("jobs_relay", "--drain")
    scene.done("jobs_worker", "--drain", "--concurrency", "20")

    assert staged() == []
    assert {str(row) for row in JobRow.objects.values_list("id", flat=True)} == ids
    assert states() == {"done": len(keys)}
    assert sorted(line["key"] for line in scene.ledger()) == keys
