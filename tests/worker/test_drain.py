"""Stopping: nothing more is claimed, bodies are told or waited for, and no attempt is lost by it."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from tests.builders import PATIENCE, Declarations, Ping, states, wait_until
from tests.worker.running import Events, Gate, at_least, body_threads, on_duty, work
from ultimate_jobs import Retry, Run
from ultimate_jobs.conf import Settings
from ultimate_jobs.models import Job as JobRow, Worker as WorkerRow

pytestmark = pytest.mark.django_db(transaction=True)

SHORT = timedelta(milliseconds=250)
LEASE = Settings().visibility_timeout


def let_leases_run_out() -> None:
    """Check that what a worker left behind is held for one lease and no longer; let it pass."""
    JobRow.objects.filter(state="running", visible_at__lte=Now() + LEASE).update(visible_at=Now())
    WorkerRow.objects.filter(expires_at__lte=Now() + LEASE).update(expires_at=Now())


class Patient:
    """A body that runs until it is told to stop, and then stops in the given way."""

    def __init__(self, last_words: Exception | None = None) -> None:
        self.started = threading.Event()
        self.reasons: list[object] = []
        self._last_words = last_words

    def body(self, run: Run[Ping]) -> str:
        self.started.set()
        assert run.signal.wait(PATIENCE)
        self.reasons.append(run.signal.reason)
        if self._last_words is not None:
            raise self._last_words
        run.signal.raise_if_aborted()
        return "never"


@pytest.mark.parametrize("last_words", [None, LookupError("the stop hurt")], ids=["told", "hurt"])
def test_an_interrupted_attempt_is_given_back_uncounted_however_the_body_stopped(
    declare: Declarations, events: Events, last_words: Exception | None
) -> None:
    patient = Patient(last_words)
    ping = declare(lambda run: patient.body(run), retry=Retry(attempts=1))  # noqa: PLW0108
    ping.enqueue(Ping("a"))
    with on_duty(ping) as duty:
        assert patient.started.wait(PATIENCE)
        duty.worker.interrupt("SIGTERM")
        stats = duty.ended()

    row = JobRow.objects.get()
    (reason,) = patient.reasons
    assert getattr(reason, "code", None) == "X_DRAINING"
    assert getattr(reason, "meta", None) == {"worker": duty.worker.id, "signal": "SIGTERM"}
    assert (row.state, row.attempt, row.last_error) == ("ready", 0, None)
    assert (row.claimed_by, row.visible_at) == (None, None)
    assert row.run_at <= row.updated_at, "it can be claimed at once"
    assert (stats.failed, stats.abandoned, stats.processed) == (0, 0, 0)
    assert events.named("jobs.attempt.failed") == []


def test_a_job_with_one_attempt_lives_through_many_interruptions(declare: Declarations) -> None:
    patients = [Patient() for _ in range(3)]
    attempts: list[tuple[int, bool]] = []

    def body(run: Run[Ping]) -> str:
        attempts.append((run.attempt, run.final_attempt))
        return patients[len(attempts) - 1].body(run) if len(attempts) <= 3 else "done at last"

    ping = declare(body, retry=Retry(attempts=1))
    ping.enqueue(Ping("a"))
    for patient in patients:
        with on_duty(ping) as duty:
            assert patient.started.wait(PATIENCE)
            duty.worker.interrupt("SIGTERM")

    work(ping)

    row = JobRow.objects.get()
    assert attempts == [(1, True)] * 4
    assert (row.state, row.attempt, row.result) == ("done", 1, "done at last")


def test_a_body_that_finishes_during_the_drain_is_done(declare: Declarations, gate: Gate) -> None:
    def body(run: Run[Ping]) -> str:
        gate.hold()
        assert run.signal.wait(PATIENCE)
        return "finished anyway"

    ping = declare(body)
    ping.enqueue(Ping("a"))
    with on_duty(ping) as duty:
        gate.arrived()
        duty.worker.interrupt("SIGTERM")
        wait_until(lambda: duty.worker.stats.state == "draining")
        gate.open()

    assert (JobRow.objects.get().state, JobRow.objects.get().result) == ("done", "finished anyway")


def test_nothing_is_claimed_after_the_signal(declare: Declarations, gate: Gate) -> None:
    ping = declare(lambda run: gate.hold())
    ping.enqueue(Ping("a"))
    with on_duty(ping, concurrency=4) as duty:
        gate.arrived()
        duty.worker.interrupt("SIGTERM")
        wait_until(lambda: duty.worker.stats.state == "draining")
        ping.enqueue_many([Ping("b"), Ping("c")])
        gate.open()
        duty.ended()

    assert states() == {"done": 1, "ready": 2}


def test_a_body_that_ignores_the_signal_is_left_behind_at_the_deadline(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold(), retry=Retry(attempts=2))
    queued = ping.enqueue(Ping("a"))
    with on_duty(ping, drain_timeout=SHORT, heartbeat_interval=SHORT / 5) as duty:
        gate.arrived()
        wait_until(WorkerRow.objects.exists)
        duty.worker.interrupt("SIGTERM")
        stats = duty.ended()

    row = JobRow.objects.get()
    assert stats.abandoned == 1
    assert WorkerRow.objects.exists(), "the claim holds until its lease has run out"
    assert [said["id"] for said in events.named("jobs.worker.abandoned")] == [queued.id]
    assert (row.state, row.attempt, row.claimed_by) == ("running", 1, duty.worker.id)
    gate.open()
    wait_until(lambda: not body_threads(), what="the thread of the body to end after it")


def test_what_was_left_behind_is_delivered_again_and_its_attempt_counts(
    declare: Declarations, gate: Gate
) -> None:
    attempts: list[int] = []

    def body(run: Run[Ping]) -> None:
        attempts.append(run.attempt)
        if run.attempt == 1:
            gate.hold()

    ping = declare(body, retry=Retry(attempts=2))
    ping.enqueue(Ping("a"))
    with on_duty(ping, drain_timeout=SHORT) as duty:
        gate.arrived()
        duty.worker.interrupt("SIGTERM")
        duty.ended()
    let_leases_run_out()
    with on_duty(ping):
        wait_until(lambda: states() == {"done": 1})

    assert attempts == [1, 2]
    assert JobRow.objects.get().attempt == 2
    gate.open()


def test_what_was_left_behind_on_the_last_attempt_is_buried(
    declare: Declarations, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold(), retry=Retry(attempts=1))
    ping.enqueue(Ping("a"))
    with on_duty(ping, drain_timeout=SHORT) as duty:
        gate.arrived()
        duty.worker.interrupt("SIGTERM")
        duty.ended()
    let_leases_run_out()
    with on_duty(ping):
        wait_until(lambda: states() == {"dead": 1})

    assert str(JobRow.objects.get().last_error).startswith("X_JOB_LEASE_LOST")
    gate.open()


def test_a_stop_by_hand_waits_for_bodies_and_does_not_disturb_them(
    declare: Declarations, gate: Gate
) -> None:
    disturbed: list[bool] = []

    def body(run: Run[Ping]) -> str:
        gate.hold()
        disturbed.append(run.signal.aborted)
        return "undisturbed"

    ping = declare(body)
    ping.enqueue(Ping("a"))
    with on_duty(ping, drain_timeout=SHORT) as duty:
        gate.arrived()
        duty.worker.stop()
        wait_until(lambda: duty.worker.stats.state == "draining")
        ping.enqueue(Ping("b"))
        gate.open()
        assert duty.ended().abandoned == 0

    assert disturbed == [False]
    assert states() == {"done": 1, "ready": 1}


def test_a_signal_during_a_stop_by_hand_tells_the_bodies(declare: Declarations) -> None:
    patient = Patient()
    ping = declare(lambda run: patient.body(run), retry=Retry(attempts=1))  # noqa: PLW0108
    ping.enqueue(Ping("a"))
    with on_duty(ping) as duty:
        assert patient.started.wait(PATIENCE)
        duty.worker.stop()
        wait_until(lambda: duty.worker.stats.state == "draining")
        duty.worker.interrupt("SIGINT")
        duty.ended()

    assert states() == {"ready": 1}


def test_haste_ends_the_waiting(declare: Declarations, gate: Gate) -> None:
    ping = declare(lambda run: gate.hold())
    ping.enqueue(Ping("a"))
    with on_duty(ping) as duty:
        gate.arrived()
        duty.worker.interrupt("SIGTERM")
        duty.worker.hurry()
        assert duty.ended(PATIENCE / 2).abandoned == 1
        gate.open()

    assert states() == {"running": 1}


def test_an_idle_worker_at_its_longest_poll_stops_at_once(
    declare: Declarations, events: Events
) -> None:
    ping = declare()
    long = {"poll_interval": timedelta(hours=1), "idle_poll_max": timedelta(hours=1)}
    with on_duty(ping, **long) as duty:
        wait_until(lambda: duty.statements)
        duty.worker.interrupt("SIGTERM")
        duty.ended(PATIENCE / 2)

    (said,) = events.named("jobs.worker.draining")
    assert said["signal"] == "SIGTERM"
    assert events.names().count("jobs.worker.stopped") == 1


def test_a_worker_that_ends_cleanly_takes_its_sign_of_life_along(
    declare: Declarations, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold())
    ping.enqueue(Ping("a"))
    with on_duty(ping, heartbeat_interval=SHORT / 5):
        gate.arrived()
        wait_until(WorkerRow.objects.exists)
        gate.open()

    assert not WorkerRow.objects.exists()


def test_many_stops_at_random_moments_lose_nothing_and_count_nothing(
    declare: Declarations,
) -> None:
    completed: list[str] = []

    def body(run: Run[Ping]) -> None:
        if run.signal.wait(0.002):
            run.signal.raise_if_aborted()
        completed.append(run.input.key)

    ping = declare(body, retry=Retry(attempts=1))
    ping.enqueue_many([Ping(f"k-{n}") for n in range(200)])
    for round_ in range(15):
        with on_duty(ping, concurrency=4) as duty:
            wait_until(at_least(round_ * 8, completed))
            duty.worker.interrupt("SIGTERM")
            assert duty.ended().abandoned == 0
        assert set(states()) <= {"ready", "done"}
    work(ping, concurrency=4)

    assert sorted(completed) == sorted(f"k-{n}" for n in range(200))
    assert states() == {"done": 200}
