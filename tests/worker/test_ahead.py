"""Runs that a worker takes before it has a body for them: who may wait, and what becomes of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from tests.builders import PATIENCE, Declarations, Ping, states, wait_until
from tests.worker.running import Duty, Events, Gate, at_least, milliseconds, on_duty, work
from ultimate_jobs import Job, Retry, Run
from ultimate_jobs.conf import Settings
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.worker import bodies

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs wait behind a long body for as long as the test takes."""
    monkeypatch.setattr(bodies, "PATIENCE", 10 * PATIENCE)


class Behind:
    """A body that stands at a gate for the first job, and the jobs that come after it."""

    def __init__(self, declare: Declarations, gate: Gate, **declared: Any) -> None:
        self.started: list[str] = []

        def body(run: Run[Ping]) -> None:
            self.started.append(run.input.key)
            if run.input.key == "k-0":
                gate.hold()

        self.job: Job[Ping, object] = declare(body, **declared)

    def enqueue(self, count: int) -> None:
        self.job.enqueue_many([Ping(f"k-{n}") for n in range(count)])


def waits(duty: Duty, count: int) -> None:
    wait_until(lambda: states().get("running") == count + 1, what="runs taken ahead")
    assert duty.worker.stats.max_in_flight == 1


@pytest.mark.usefixtures("patient")
def test_what_is_taken_ahead_waits_for_a_body_and_then_runs_in_order(
    declare: Declarations, gate: Gate
) -> None:
    behind = Behind(declare, gate)
    behind.enqueue(9)
    with on_duty(behind.job, concurrency=1, ahead=5) as duty:
        gate.arrived()
        waits(duty, 5)
        assert states() == {"running": 6, "ready": 3}
        assert behind.started == ["k-0"]
        gate.open()
        wait_until(lambda: states() == {"done": 9})

    assert behind.started == [f"k-{n}" for n in range(9)]
    assert set(JobRow.objects.values_list("attempt", "claim")) == {(1, 1)}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("ask", ["stop", "quiet", "interrupt"])
def test_a_worker_that_leaves_gives_back_what_waits_as_if_it_had_never_been_taken(
    declare: Declarations, gate: Gate, ask: str
) -> None:
    behind = Behind(declare, gate)
    behind.enqueue(5)
    before = dict(JobRow.objects.values_list("id", "run_at"))
    with on_duty(behind.job, concurrency=1, ahead=5) as duty:
        gate.arrived()
        waits(duty, 4)
        getattr(duty.worker, ask)(*(["SIGTERM"] if ask == "interrupt" else []))
        wait_until(lambda: states() == {"running": 1, "ready": 4})
        gate.open()

    assert behind.started == ["k-0"]
    back = JobRow.objects.filter(state="ready")
    assert set(back.values_list("attempt", "claim", "claimed_by")) == {(0, 1, None)}
    assert {row.id: row.run_at for row in back} == {row.id: before[row.id] for row in back}


def test_when_every_thread_is_busy_for_long_others_may_have_what_waits(
    declare: Declarations, gate: Gate
) -> None:
    behind = Behind(declare, gate)
    behind.enqueue(5)
    with on_duty(behind.job, concurrency=1, ahead=5):
        gate.arrived()
        wait_until(lambda: states() == {"running": 1, "ready": 4})

        work(behind.job)

        assert states() == {"running": 1, "done": 4}
        gate.open()


@pytest.mark.usefixtures("patient")
def test_a_long_body_keeps_nobody_waiting_while_there_may_be_another_thread(
    declare: Declarations, gate: Gate
) -> None:
    behind = Behind(declare, gate)
    behind.enqueue(9)
    with on_duty(behind.job, concurrency=2, ahead=10):
        gate.arrived()
        wait_until(lambda: states() == {"running": 1, "done": 8})
        gate.open()


@pytest.mark.usefixtures("patient")
def test_a_run_that_is_lost_while_it_waits_is_not_started(
    declare: Declarations, gate: Gate, events: Events
) -> None:
    behind = Behind(declare, gate)
    behind.enqueue(5)
    with on_duty(behind.job, concurrency=1, ahead=5, heartbeat_interval=milliseconds(50)) as duty:
        gate.arrived()
        waits(duty, 4)
        taken = JobRow.objects.exclude(idempotency_key="k-0")
        taken.update(claimed_by="another", claim=F("claim") + 1)
        events.wait_for("jobs.lease.lost", 4)
        gate.open()
        wait_until(lambda: JobRow.objects.filter(state="done").count() == 1)

    assert behind.started == ["k-0"]
    assert set(taken.values_list("state", "attempt", "claimed_by")) == {("running", 1, "another")}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"retry": Retry(attempts=1)}, "a worker that dies would cost it its only attempt"),
        ({"concurrency": 3}, "it would keep a slot from others"),
    ],
)
def test_a_job_that_may_not_wait_is_taken_only_with_a_body_for_it(
    declare: Declarations, gate: Gate, declared: dict[str, Any], why: str
) -> None:
    behind = Behind(declare, gate, **declared)
    plain = declare()
    behind.enqueue(2)
    plain.enqueue_many([Ping(f"p-{n}") for n in range(3)])
    with on_duty(behind.job, plain, concurrency=1, ahead=5) as duty:
        gate.arrived()
        wait_until(at_least(len(duty.statements) + 3, duty.statements))
        assert states() == {"running": 1, "ready": 4}, why
        gate.open()
        wait_until(lambda: states() == {"done": 5})


@pytest.mark.usefixtures("patient")
def test_what_was_tried_before_does_not_wait(declare: Declarations, gate: Gate) -> None:
    behind = Behind(declare, gate)
    behind.enqueue(3)
    JobRow.objects.filter(idempotency_key="k-1").update(attempt=1)
    with on_duty(behind.job, concurrency=1, ahead=5) as duty:
        gate.arrived()
        wait_until(at_least(len(duty.statements) + 3, duty.statements))
        assert states() == {"running": 1, "ready": 2}
        gate.open()
        wait_until(lambda: states() == {"done": 3})


@pytest.mark.usefixtures("patient")
def test_the_ceiling_of_a_body_counts_from_its_start(
    declare: Declarations, gate: Gate, events: Events
) -> None:
    behind = Behind(declare, gate, timeout=timedelta(seconds=2 * PATIENCE))
    behind.enqueue(5)
    with on_duty(behind.job, concurrency=1, ahead=5) as duty:
        gate.arrived()
        waits(duty, 4)
        assert len(duty.worker._deadlines._due) == 1, "only that of the body that runs"
        gate.open()
        wait_until(lambda: states() == {"done": 5})
    assert "jobs.attempt.failed" not in events.names()


def test_a_worker_learns_to_take_ahead_and_every_job_runs_once(declare: Declarations) -> None:
    started: list[str] = []
    ping = declare(lambda run: started.append(run.input.key))
    ping.enqueue_many([Ping(f"k-{n:04}") for n in range(1_000)])
    options = {"concurrency": 2, "prefetch": Settings().prefetch}
    with on_duty(ping, **options) as one, on_duty(ping, **options) as other:
        wait_until(lambda: states() == {"done": 1_000})
        claims = len(one.statements) + len(other.statements)

    assert sorted(started) == [f"k-{n:04}" for n in range(1_000)]
    assert set(JobRow.objects.values_list("attempt", "claim")) <= {(1, 1), (1, 2)}
    assert claims < 1_000
