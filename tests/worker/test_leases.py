"""A claim holds while its worker shows signs of life; who lost it can change nothing any more."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from tests.builders import PATIENCE, Declarations, Ping, a_job, reloaded, sql, states, wait_until
from tests.worker.running import Events, Gate, on_duty, work
from ultimate_jobs import Retry, Run
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Counter, Job as JobRow, Worker as WorkerRow

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
OFTEN = timedelta(milliseconds=50)
SILENT = {"visibility_timeout": timedelta(hours=6), "heartbeat_interval": timedelta(hours=3)}
"""A worker that gives no sign of life while a test lasts, and trusts its claims all the same."""
HEARTBEAT = "Give one sign of life"


def freeze_its_holder() -> None:
    """Let the database see what it sees of a frozen worker: time has passed, nobody has beaten."""
    wait_until(WorkerRow.objects.exists)
    JobRow.objects.filter(state="running").update(visible_at=Now() - SECOND)
    WorkerRow.objects.all().delete()


@pytest.mark.parametrize("late_end", ["returns", "raises"])
def test_a_frozen_worker_cannot_settle_the_run_that_replaced_its_own(
    declare: Declarations, events: Events, gate: Gate, late_end: str
) -> None:
    second = Gate()

    def body(run: Run[Ping]) -> str:
        if run.attempt == 1:
            gate.hold()
            if late_end == "raises":
                raise LookupError
            return "of the frozen one"
        second.hold()
        return "of the second one"

    told: list[object] = []
    ping = declare(body, on_settled=lambda settled: told.append(settled.result))
    queued = ping.enqueue(Ping("a"))
    with on_duty(ping, **SILENT) as frozen:
        gate.arrived()
        freeze_its_holder()
        with on_duty(ping) as other:
            second.arrived()
            held = JobRow.objects.get()
            gate.open()
            (said,) = events.wait_for("jobs.settle.unowned")

            assert (said["id"], said["attempt"]) == (queued.id, 1)
            assert (held.claim, held.attempt, held.claimed_by) == (2, 2, other.worker.id)
            assert JobRow.objects.values().get() == {
                field.attname: getattr(held, field.attname) for field in held._meta.fields
            }
            second.open()
        assert other.worker.stats.processed == 1

    row = JobRow.objects.get()
    assert (row.state, row.result, row.last_error) == ("done", "of the second one", None)
    assert told == ["of the second one"]
    assert (Counter.objects.get().done, frozen.worker.stats.processed) == (1, 0)


def test_a_frozen_worker_cannot_settle_a_job_that_is_already_done(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    def body(run: Run[Ping]) -> str:
        if run.attempt == 1:
            gate.hold()
            raise LookupError
        return "well"

    ping = declare(body)
    ping.enqueue(Ping("a"))
    with on_duty(ping, **SILENT):
        gate.arrived()
        freeze_its_holder()
        with on_duty(ping):
            wait_until(lambda: states() == {"done": 1})
        gate.open()
        events.wait_for("jobs.settle.unowned")

    row = JobRow.objects.get()
    assert (row.state, row.result, row.attempt, row.last_error) == ("done", "well", 2, None)


def test_a_worker_that_claims_its_own_lapsed_job_settles_only_the_newer_claim(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    second = Gate()

    def body(run: Run[Ping]) -> str:
        (gate if run.attempt == 1 else second).hold()
        return f"of attempt {run.attempt}"

    ping = declare(body)
    ping.enqueue(Ping("a"))
    with on_duty(ping, concurrency=2, **SILENT) as duty:
        gate.arrived()
        freeze_its_holder()
        second.arrived()
        gate.open()
        events.wait_for("jobs.settle.unowned")
        assert states() == {"running": 1}
        second.open()

    assert JobRow.objects.get().result == "of attempt 2"
    assert duty.worker.stats.processed == 1


def test_two_workers_of_one_name_are_two_workers(declare: Declarations, gate: Gate) -> None:
    starts: list[str] = []

    def body(run: Run[Ping]) -> None:
        starts.append(run.input.key)
        gate.hold()

    ping = declare(body)
    ping.enqueue_many([Ping("a"), Ping("b")])
    with (
        on_duty(ping, name="pod-0", concurrency=1) as one,
        on_duty(ping, name="pod-0", concurrency=1) as other,
    ):
        gate.arrived(2)
        holders = set(JobRow.objects.values_list("claimed_by", flat=True))
        assert holders == {one.worker.id, other.worker.id}
        assert {holder.partition(":")[0] for holder in holders if holder} == {"pod-0"}
        gate.open()

    assert sorted(starts) == ["a", "b"]
    assert states() == {"done": 2}


def test_a_worker_under_a_dead_ones_name_does_not_keep_its_job_alive(
    declare: Declarations, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold() if run.input.key == "busy" else None)
    left = a_job(
        JobState.RUNNING,
        name=ping.name,
        claimed_by="pod-0:0a0a0a0a",
        visible_for=-SECOND,
        input={"key": "left", "org": "acme", "load": None},
    )
    ping.enqueue(Ping("busy"), priority=1)
    with on_duty(ping, name="pod-0", heartbeat_interval=OFTEN, concurrency=3):
        gate.arrived()
        wait_until(lambda: reloaded(left).state == "done")
        gate.open()

    assert reloaded(left).attempt == 2


def test_a_body_of_a_claim_that_was_taken_away_is_told_to_stop(
    declare: Declarations, events: Events
) -> None:
    reasons: list[object] = []
    started: list[int] = []

    def body(run: Run[Ping]) -> None:
        started.append(1)
        run.signal.wait(PATIENCE)
        reasons.append(run.signal.reason)
        run.signal.raise_if_aborted()

    ping = declare(body)
    queued = ping.enqueue(Ping("a"))
    with on_duty(ping, heartbeat_interval=OFTEN):
        wait_until(lambda: started)
        JobRow.objects.update(state="cancelled", claimed_by=None, visible_at=None)
        events.wait_for("jobs.settle.unowned")

    assert [getattr(reason, "code", None) for reason in reasons] == ["X_JOB_LEASE_LOST"]
    assert [said["id"] for said in events.named("jobs.lease.lost")] == [queued.id]
    assert states() == {"cancelled": 1}


def test_a_worker_that_cannot_renew_gives_up_its_claims_by_its_own_clock(
    declare: Declarations, events: Events
) -> None:
    reasons: list[object] = []

    def body(run: Run[Ping]) -> None:
        run.signal.wait(PATIENCE)
        reasons.append(run.signal.reason)
        run.signal.raise_if_aborted()

    ping = declare(body, retry=Retry(attempts=1))
    ping.enqueue(Ping("a"))
    never = timedelta(hours=1)
    lease = timedelta(milliseconds=300)
    with on_duty(ping, visibility_timeout=lease, heartbeat_interval=never, concurrency=1):
        wait_until(lambda: reasons)

    assert [getattr(reason, "code", None) for reason in reasons] == ["X_JOB_LEASE_LOST"]
    assert events.names().count("jobs.lease.lost") == 1


@contextmanager
def refusing_the_end_of(key: str) -> Iterator[None]:
    """Let the database refuse one job's ending, as a constraint of an operator's might."""
    sql(
        f"""
        CREATE FUNCTION refuse_an_end() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF new.state = 'done' AND new.idempotency_key = '{key}' THEN
                RAISE EXCEPTION 'this end is refused';
            END IF;
            RETURN new;
        END $$;
        CREATE TRIGGER refuse_an_end BEFORE UPDATE ON x_jobs
        FOR EACH ROW EXECUTE FUNCTION refuse_an_end();
        """
    )
    try:
        yield
    finally:
        sql("DROP TRIGGER refuse_an_end ON x_jobs; DROP FUNCTION refuse_an_end();")


def test_an_ending_the_database_refuses_holds_up_no_other_and_its_job_is_delivered_again(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold() if run.attempt == 1 else None)
    other_gate = Gate()
    other = declare(lambda run: other_gate.hold())
    ping.enqueue_many([Ping("refused"), Ping("b"), Ping("c")])
    other.enqueue(Ping("keeps the worker alive"))
    with on_duty(ping, other, concurrency=4, heartbeat_interval=OFTEN):
        with refusing_the_end_of("refused"):
            gate.arrived(3)
            other_gate.arrived()
            wait_until(WorkerRow.objects.exists)
            gate.open()
            events.wait_for("jobs.worker.settle-failed")
            wait_until(lambda: states() == {"done": 2, "running": 2})
        JobRow.objects.filter(state="running").update(visible_at=Now() - SECOND)
        wait_until(lambda: states() == {"done": 3, "running": 1})
        other_gate.open()

    mine = JobRow.objects.filter(name=ping.name).order_by("idempotency_key")
    assert list(mine.values_list("idempotency_key", "attempt")) == [
        ("b", 1),
        ("c", 1),
        ("refused", 2),
    ]
    assert events.names().count("jobs.worker.settle-failed") == 1


def test_all_claims_of_a_worker_are_kept_by_one_statement_a_beat(
    declare: Declarations, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold())
    ping.enqueue_many([Ping(f"k-{n}") for n in range(8)])
    with on_duty(ping, concurrency=8, heartbeat_interval=OFTEN) as duty:
        gate.arrived(8)
        wait_until(WorkerRow.objects.exists)
        first = WorkerRow.objects.get()
        wait_until(lambda: WorkerRow.objects.get().beat_at > first.beat_at)
        rows = list(JobRow.objects.values_list("updated_at", "visible_at"))
        beat = WorkerRow.objects.get().beat_at
        wait_until(lambda: WorkerRow.objects.get().beat_at > beat)
        assert list(JobRow.objects.values_list("updated_at", "visible_at")) == rows
        assert WorkerRow.objects.get().id == duty.worker.id
        gate.open()

    assert not any(HEARTBEAT in text for _, text in duty.statements), "the dispatcher never beats"


def test_a_worker_is_registered_from_its_start_to_its_end(
    declare: Declarations, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold())
    beats = timedelta(milliseconds=20)
    with on_duty(ping, heartbeat_interval=beats, queues=["default", "mail"]) as duty:
        wait_until(WorkerRow.objects.exists)
        queued = ping.enqueue(Ping("a"))
        gate.arrived()
        wait_until(lambda: WorkerRow.objects.get().running == [str(queued.id)])

        row = WorkerRow.objects.get()
        assert (row.id, row.host, row.pid) == (duty.worker.id, socket.gethostname(), os.getpid())
        assert (row.queues, row.concurrency, row.state) == (["default", "mail"], 2, "running")
        gate.open()
        wait_until(lambda: WorkerRow.objects.get().running == [])

    assert not WorkerRow.objects.exists()


def test_the_end_of_a_lease_is_judged_by_the_database(declare: Declarations) -> None:
    ping = declare(retry=Retry(attempts=5))
    fresh = a_job(
        JobState.RUNNING, name=ping.name, claimed_by="another", visible_for=timedelta(hours=1)
    )

    work(ping)

    stored = reloaded(fresh)
    assert (stored.state, stored.claimed_by, stored.claim) == ("running", "another", 1)
