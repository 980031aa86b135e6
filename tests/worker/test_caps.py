"""Caps of the fleet: never exceeded, never leaked, and waiting for one costs nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    a_job,
    reloaded,
    some_jobs,
    sql,
    states,
    wait_until,
)
from tests.worker.running import Events, Gate, on_duty, work
from ultimate_jobs import Concurrency, Retry, Run, Settled
from ultimate_jobs.core.keys import lease_key
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Job as JobRow, Lease, Worker as WorkerRow
from ultimate_jobs.operate.verbs import retry_job

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)


def by_org(value: Ping) -> str:
    return value.org


class Crowd:
    """Counts the bodies inside at once, by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: dict[str, int] = {}
        self.most: dict[str, int] = {}

    @contextmanager
    def inside(self, key: str) -> Iterator[None]:
        with self._lock:
            self._inside[key] = self._inside.get(key, 0) + 1
            self.most[key] = max(self.most.get(key, 0), self._inside[key])
        try:
            yield
        finally:
            with self._lock:
                self._inside[key] -= 1


def test_a_cap_holds_over_several_workers_and_every_job_ends(declare: Declarations) -> None:
    crowd, pause = Crowd(), threading.Event()

    def body(run: Run[Ping]) -> None:
        with crowd.inside("all"):
            pause.wait(0.002)

    ping = declare(body, concurrency=2)
    ping.enqueue_many([Ping(str(n)) for n in range(60)])
    with on_duty(ping, concurrency=4), on_duty(ping, concurrency=4), on_duty(ping, concurrency=4):
        wait_until(lambda: states() == {"done": 60}, seconds=6 * PATIENCE)

    assert crowd.most["all"] <= 2
    assert not Lease.objects.exists()
    assert set(JobRow.objects.values_list("attempt", flat=True)) == {1}


def test_keys_are_capped_each_by_itself(declare: Declarations) -> None:
    crowd, gate = Crowd(), Gate()

    def body(run: Run[Ping]) -> None:
        with crowd.inside(run.input.org):
            gate.hold()

    ping = declare(body, concurrency=Concurrency(key=by_org, limit=1))
    ping.enqueue_many([Ping(f"{org}{n}", org) for org in ("a", "b") for n in range(3)])
    with on_duty(ping, concurrency=6):
        gate.arrived(2)
        wait_until(lambda: JobRow.objects.filter(blocked=True).count() == 4)
        gate.open()
        wait_until(lambda: states() == {"done": 6})

    assert crowd.most == {"a": 1, "b": 1}


def test_what_waits_for_a_slot_is_not_read_by_every_claim(declare: Declarations) -> None:
    gate = Gate()
    capped = declare(lambda run: gate.hold(), concurrency=1)
    free = declare()
    capped.enqueue_many([Ping(str(n)) for n in range(50)])
    with on_duty(capped, free, concurrency=2):
        gate.arrived()
        free.enqueue_many([Ping(str(n)) for n in range(20)])
        wait_until(lambda: JobRow.objects.filter(name=free.name, state="done").count() == 20)
        claims = JobRow.objects.filter(name=capped.name).values_list("claim", flat=True)
        assert sum(claims) < 10, "rows that cannot start were claimed over and over"
        gate.open()
        wait_until(lambda: states() == {"done": 70}, seconds=3 * PATIENCE)


def test_waiting_for_a_slot_burns_no_attempt_and_records_no_error(declare: Declarations) -> None:
    gate = Gate()
    ping = declare(lambda run: gate.hold(), concurrency=1, retry=Retry(attempts=1))
    first, second = ping.enqueue_many([Ping("a"), Ping("b")])
    with on_duty(ping):
        gate.arrived()
        wait_until(lambda: JobRow.objects.filter(blocked=True).count() == 1)
        waiting = JobRow.objects.get(blocked=True)
        assert (waiting.state, waiting.attempt, waiting.last_error) == ("ready", 0, None)
        gate.open()
        wait_until(lambda: states() == {"done": 2})

    assert {row.attempt for row in map(reload_by_id, (first.id, second.id))} == {1}


def reload_by_id(job: Any) -> JobRow:
    return JobRow.objects.get(id=job)


class TestFailWhenBusy:
    def test_a_second_run_is_refused_without_its_body(
        self, declare: Declarations, gate: Gate
    ) -> None:
        told: list[Settled[Ping]] = []
        started: list[str] = []

        def body(run: Run[Ping]) -> None:
            started.append(run.input.key)
            gate.hold()

        ping = declare(
            body,
            concurrency=Concurrency(key=by_org, limit=1, when_busy="fail"),
            on_settled=told.append,
        )
        first = ping.enqueue(Ping("a"))
        with on_duty(ping) as duty:
            gate.arrived()
            second = ping.enqueue(Ping("b"))
            wait_until(lambda: states().get("failed") == 1)
            refused = reload_by_id(second.id)
            wait_until(lambda: len(told) == 1)
            gate.open()
            wait_until(lambda: reload_by_id(first.id).state == "done")

        assert duty.worker.stats.failed == 1
        assert started == ["a"]
        assert refused.attempt == 0
        assert "X_JOB_KEY_BUSY" in str(refused.last_error)
        assert "jobs retry" in str(refused.last_error)
        assert (told[0].outcome, told[0].code) == ("refused", "X_JOB_KEY_BUSY")
        assert told[0].input == Ping("b")

    def test_a_slot_that_the_run_itself_left_behind_is_no_reason(
        self, declare: Declarations
    ) -> None:
        ping = declare(concurrency=Concurrency(key=by_org, limit=1, when_busy="fail"))
        queued = ping.enqueue(Ping("a"))
        leave_behind(queued.run_id, lease_key(ping.name, "acme"))
        with on_duty(ping):
            wait_until(lambda: reload_by_id(queued.id).claim >= 3)
            assert reload_by_id(queued.id).state in ("ready", "running")
            sql("UPDATE x_job_leases SET expires_at = now()")
            wait_until(lambda: states() == {"done": 1})

    def test_a_refused_job_can_be_queued_again(self, declare: Declarations) -> None:
        ping = declare(concurrency=Concurrency(key=by_org, limit=1, when_busy="fail"))
        queued = ping.enqueue(Ping("a"))
        leave_behind(a_job(JobState.DONE).run_id, lease_key(ping.name, "acme"))
        work(ping)
        assert reload_by_id(queued.id).state == "failed"

        Lease.objects.all().delete()
        retry_job(str(queued.id))
        work(ping)

        assert reload_by_id(queued.id).state == "done"


def leave_behind(run: Any, key: str) -> None:
    """Write the slot that a run held when its worker died."""
    sql(
        "INSERT INTO x_job_leases (lease_key, slot, job_id, run_id, claim, worker, acquired_at, expires_at)"
        " VALUES (%s, 1, gen_random_uuid(), %s, 1, 'w-dead', now(), now() + interval '1 hour')",
        [key, run],
    )


class TestKeys:
    def test_a_key_function_that_raises_fails_the_attempt_without_the_body(
        self, declare: Declarations
    ) -> None:
        broken: list[bool] = []
        started: list[str] = []

        def key(value: Ping) -> str:
            if broken:
                raise LookupError("the table of keys is gone")
            return value.org

        ping = declare(
            lambda run: started.append(run.input.key),
            concurrency=Concurrency(key=key, limit=1),
            retry=Retry(attempts=1),
        )
        queued = ping.enqueue(Ping("a"))
        broken.append(True)
        work(ping)

        row = reload_by_id(queued.id)
        assert (row.state, row.attempt, started) == ("dead", 1, [])
        assert "LookupError" in str(row.last_error)
        assert not Lease.objects.exists()

    def test_an_input_that_no_longer_parses_is_dead_and_kept(self, declare: Declarations) -> None:
        ping = declare(concurrency=Concurrency(key=by_org, limit=1))
        row = a_job(name=ping.name, input={"nothing": "fits"})

        work(ping)

        assert reloaded(row).state == "dead"
        assert "X_JOB_INPUT_INVALID" in str(reloaded(row).last_error)

    def test_a_cap_declared_later_holds_for_rows_that_were_there_before(
        self, declare: Declarations, gate: Gate
    ) -> None:
        ping = declare(lambda run: gate.hold(), concurrency=1)
        some_jobs(3, name=ping.name, input={"key": "a", "org": "acme", "load": None})
        with on_duty(ping, concurrency=3):
            gate.arrived()
            wait_until(lambda: JobRow.objects.filter(blocked=True).count() == 2)
            assert set(JobRow.objects.filter(blocked=True).values_list("lease_key", flat=True)) == {
                lease_key(ping.name)
            }
            gate.open()
            wait_until(lambda: states() == {"done": 3})


class TestHolders:
    def test_a_body_that_outlives_many_leases_keeps_its_slot(
        self, declare: Declarations, gate: Gate
    ) -> None:
        crowd = Crowd()

        def body(run: Run[Ping]) -> None:
            with crowd.inside("all"):
                gate.hold()

        ping = declare(body, concurrency=1)
        ping.enqueue_many([Ping("a"), Ping("b")])
        with on_duty(ping, visibility_timeout=60 * SECOND, heartbeat_interval=SECOND / 50):
            gate.arrived()
            first = Lease.objects.get().expires_at
            wait_until(lambda: Lease.objects.get().expires_at > first + SECOND / 10)
            gate.open()
            wait_until(lambda: states() == {"done": 2})

        assert crowd.most["all"] == 1

    def test_a_lost_slot_ends_the_run_and_is_logged_and_counted(
        self, declare: Declarations, events: Events
    ) -> None:
        reasons: list[str] = []

        def body(run: Run[Ping]) -> None:
            if run.attempt == 1:
                run.signal.wait(3 * PATIENCE)
                assert run.signal.reason is not None
                reasons.append(run.signal.reason.code)
                run.signal.raise_if_aborted()

        ping = declare(body, concurrency=1, retry=Retry(attempts=2, delay="1ms", jitter=False))
        ping.enqueue(Ping("a"))
        with on_duty(ping, heartbeat_interval=SECOND / 50) as duty:
            wait_until(Lease.objects.exists)
            sql("UPDATE x_job_leases SET expires_at = now()")
            events.wait_for("jobs.worker.slot-lost")
            wait_until(lambda: states() == {"done": 1})

        assert reasons == ["X_JOB_SLOT_LOST"]
        assert duty.worker.stats.slots_lost == 1
        assert duty.worker.stats.leases_lost == 0

    def test_the_slot_of_a_killed_worker_is_free_when_its_time_is_over(
        self, declare: Declarations
    ) -> None:
        ping = declare(concurrency=1)
        row = a_job(
            JobState.RUNNING, name=ping.name, claimed_by="w-dead", visible_for=3600 * SECOND
        )
        leave_behind(row.run_id, lease_key(ping.name))
        queued = ping.enqueue(Ping("a"))
        with on_duty(ping):
            wait_until(lambda: reload_by_id(queued.id).blocked)
            sql("UPDATE x_job_leases SET expires_at = now()")
            wait_until(lambda: reload_by_id(queued.id).state == "done")

    def test_a_drain_leaves_the_slot(self, declare: Declarations) -> None:
        entered = threading.Event()

        def body(run: Run[Ping]) -> None:
            entered.set()
            run.signal.wait(3 * PATIENCE)
            run.signal.raise_if_aborted()

        ping = declare(body, concurrency=1)
        queued = ping.enqueue(Ping("a"))
        with on_duty(ping) as duty:
            assert entered.wait(PATIENCE)
            duty.worker.interrupt("SIGTERM")
            duty.ended()

        assert not Lease.objects.exists()
        assert not WorkerRow.objects.exists()
        assert (reload_by_id(queued.id).state, reload_by_id(queued.id).attempt) == ("ready", 0)

    def test_a_sleeping_run_holds_no_slot(self, declare: Declarations) -> None:
        def body(run: Run[Ping]) -> None:
            run.sleep("1h")

        ping = declare(body, concurrency=1)
        ping.enqueue_many([Ping("a"), Ping("b")])

        work(ping)

        assert states() == {"suspended": 2}
        assert not Lease.objects.exists()


def test_slots_that_cannot_be_asked_for_hand_the_runs_back(
    declare: Declarations, events: Events
) -> None:
    free = declare()
    capped = declare(concurrency=1)
    sql("ALTER TABLE x_job_leases RENAME TO x_job_leases_away")
    try:
        free.enqueue(Ping("a"))
        queued = capped.enqueue(Ping("a"))
        with on_duty(free, capped):
            events.wait_for("jobs.worker.tick-failed")
            sql("ALTER TABLE x_job_leases_away RENAME TO x_job_leases")
            wait_until(lambda: states() == {"done": 2})
    finally:
        if not sql("SELECT 1 FROM pg_class WHERE relname = 'x_job_leases'"):
            sql("ALTER TABLE x_job_leases_away RENAME TO x_job_leases")

    assert reload_by_id(queued.id).attempt == 1


def test_a_queue_never_takes_more_bodies_than_its_part(declare: Declarations) -> None:
    slow_gate, fast_gate = Gate(), Gate()
    slow = declare(lambda run: slow_gate.hold(), queue="slow")
    fast = declare(lambda run: fast_gate.hold(), queue="fast")
    slow.enqueue_many([Ping(str(n)) for n in range(6)])
    fast.enqueue_many([Ping(str(n)) for n in range(6)])
    with on_duty(
        slow, fast, queues=["slow", "fast"], concurrency=4, queue_concurrency={"slow": 1, "fast": 3}
    ):
        slow_gate.arrived()
        fast_gate.arrived(3)
        assert JobRow.objects.filter(state="running", queue="slow").count() == 1
        slow_gate.open()
        wait_until(lambda: JobRow.objects.filter(queue="slow", state="done").count() == 6)
        assert JobRow.objects.filter(queue="fast", state="done").count() == 0
        fast_gate.open()
        wait_until(lambda: states() == {"done": 12})
