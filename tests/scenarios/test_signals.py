"""Signals to a worker process in the middle of its work."""

from __future__ import annotations

import signal

import pytest

from tests.builders import reloaded, states, wait_until
from tests.scenarios.scene import PATIENCE, Scene

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.django_db(transaction=True),
]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_job_with_one_attempt_lives_through_a_deploy(
    scene: Scene, number: signal.Signals
) -> None:
    row = scene.queued("patient", attempts=1)
    with scene.worker() as first:
        scene.wait_for("started")
        first.tell(number)
        assert first.ended() == 0
    assert (reloaded(row).state, reloaded(row).attempt) == ("ready", 0)
    assert f"signal={number.name}" in first.log

    scene.let_go()
    with scene.worker():
        wait_until(lambda: states() == {"done": 1}, PATIENCE)

    assert scene.moves() == [("started", 1), ("started", 1), ("finished", 1)]
    assert reloaded(row).attempt == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_hurries(scene: Scene, number: signal.Signals) -> None:
    row = scene.queued("stubborn")
    with scene.worker(DRAIN_TIMEOUT="1h") as worker:
        scene.wait_for("started")
        worker.tell(signal.SIGTERM)
        scene.wait_for("told X_DRAINING")
        worker.tell(number)
        assert worker.ended() == 1

    assert "jobs.worker.abandoned" in worker.log
    assert (reloaded(row).state, reloaded(row).attempt) == ("running", 1)


def test_a_body_that_does_not_listen_is_left_behind_at_the_deadline(scene: Scene) -> None:
    row = scene.queued("stubborn", attempts=1)
    with scene.worker(DRAIN_TIMEOUT="500ms") as worker:
        scene.wait_for("started")
        worker.tell(signal.SIGTERM)
        assert worker.ended() == 1
    scene.leases_run_out()
    with scene.worker():
        wait_until(lambda: states() == {"dead": 1}, PATIENCE)

    assert scene.moves() == [("started", 1), ("told X_DRAINING", 1)]
    assert str(reloaded(row).last_error).startswith("X_JOB_LEASE_LOST")
