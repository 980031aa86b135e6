"""A body out of time: told first, then failed, then left behind; nobody else loses room over it."""

from __future__ import annotations

import threading
from contextvars import copy_context
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    out_of_time,
    reloaded,
    states,
    wait_until,
)
from tests.worker.running import Events, Gate, at_least, body_threads, on_duty, work
from ultimate_jobs import Job, JobsError, Retry, Run, run_to_completion
from ultimate_jobs.models import Job as JobRow, Worker as WorkerRow

pytestmark = pytest.mark.django_db(transaction=True)


def once() -> Retry:
    return Retry(attempts=1)


def test_a_body_out_of_time_is_told_and_its_attempt_fails(declare: Declarations) -> None:
    reasons: list[object] = []

    def body(run: Run[Ping]) -> None:
        assert run.signal.wait(PATIENCE)
        reasons.append(run.signal.reason)
        run.signal.raise_if_aborted()

    ping = declare(body, timeout="100ms", retry=Retry(attempts=2, delay="1h"))
    ping.enqueue(Ping("a"))

    with out_of_time():
        stats = work(ping)

    row = JobRow.objects.get()
    assert [getattr(reason, "code", None) for reason in reasons] == ["X_JOB_TIMEOUT"]
    assert (row.state, row.attempt) == ("ready", 1)
    assert "X_JOB_TIMEOUT" in str(row.last_error)
    assert stats.failed == 1


def test_the_signal_comes_before_the_failure(declare: Declarations) -> None:
    seen: list[str] = []

    def body(run: Run[Ping]) -> None:
        assert run.signal.wait(PATIENCE)
        seen.append(JobRow.objects.get(id=run.job_id).state)

    ping = declare(body, timeout="100ms", retry=once())
    ping.enqueue(Ping("a"))

    with out_of_time():
        work(ping)

    assert seen == ["running"]


def test_whatever_a_body_raises_because_it_was_told_is_a_timeout(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        run.signal.wait(PATIENCE)
        raise LookupError("hurt by the stop")

    ping = declare(body, timeout="100ms", retry=once())
    ping.enqueue(Ping("a"))

    with out_of_time():
        work(ping)

    row = JobRow.objects.get()
    assert row.state == "dead"
    assert str(row.last_error).startswith("ultimate_jobs.errors.JobTimeout: X_JOB_TIMEOUT")


def test_a_body_that_stops_when_told_leaves_no_line_about_it(
    declare: Declarations, events: Events
) -> None:
    def body(run: Run[Ping]) -> None:
        run.signal.wait(PATIENCE)
        run.signal.raise_if_aborted()

    ping = declare(body, timeout="100ms", retry=once())
    ping.enqueue(Ping("a"))

    with out_of_time():
        work(ping)
    wait_until(lambda: not body_threads())

    assert events.named("jobs.timeout.abandoned") == []


def test_a_body_that_goes_on_is_left_behind_and_changes_nothing_any_more(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    refusals: list[str] = []
    other: Job[Ping, object] = declare()

    def body(run: Run[Ping]) -> str:
        gate.hold()
        run.progress(9, 9, "too late")
        try:
            other.enqueue(Ping("too late"))
        except JobsError as refusal:
            refusals.append(refusal.code)
        return "too late"

    ping = declare(body, timeout="100ms", retry=once())
    queued = ping.enqueue(Ping("a"))
    with on_duty(ping, concurrency=1):
        gate.arrived()
        wait_until(lambda: states() == {"dead": 1})
        settled = JobRow.objects.get()

        gate.open()
        (said,) = events.wait_for("jobs.timeout.abandoned")
        wait_until(lambda: not body_threads())

    assert refusals == ["X_JOB_TIMEOUT"]
    assert (said["id"], said["ended"], said["attempt"]) == (queued.id, "returned", 1)
    assert events.names().count("jobs.timeout.abandoned") == 1
    after = JobRow.objects.get()
    assert (after.state, after.result, after.progress) == ("dead", None, None)
    assert (after.last_error, after.updated_at) == (settled.last_error, settled.updated_at)


def test_a_body_that_goes_on_and_raises_is_reported_as_such(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    def body(run: Run[Ping]) -> None:
        gate.hold()
        raise LookupError

    ping = declare(body, timeout="100ms", retry=once())
    ping.enqueue(Ping("a"))
    with on_duty(ping):
        gate.arrived()
        wait_until(lambda: states() == {"dead": 1})
        gate.open()
        (said,) = events.wait_for("jobs.timeout.abandoned")

    assert said["ended"] == "raised"
    assert events.named("jobs.settle.unowned") == []


def test_a_callback_that_breaks_at_the_abort_does_not_break_the_worker(
    declare: Declarations, events: Events
) -> None:
    def broken(reason: JobsError) -> None:
        raise SystemExit

    def body(run: Run[Ping]) -> None:
        run.signal.on_abort(broken)
        run.signal.wait(PATIENCE)
        run.signal.raise_if_aborted()

    slow, fast = declare(body, timeout="100ms", retry=once()), declare()
    slow.enqueue(Ping("a"))
    with on_duty(slow, fast):
        wait_until(lambda: states() == {"dead": 1})
        fast.enqueue(Ping("b"))
        wait_until(lambda: states() == {"dead": 1, "done": 1})

    assert [said["error"] for said in events.named("jobs.abort.callback-failed")] == ["SystemExit"]


def test_work_that_must_land_lands_after_the_abort(declare: Declarations, gate: Gate) -> None:
    refund: Job[Ping, object] = declare()

    def body(run: Run[Ping]) -> None:
        gate.hold()
        with run_to_completion():
            refund.enqueue(Ping("must land"))

    ping = declare(body, timeout="100ms", retry=once())
    ping.enqueue(Ping("a"))
    with on_duty(ping):
        gate.arrived()
        wait_until(lambda: states() == {"dead": 1})
        gate.open()
        wait_until(lambda: not body_threads())

    assert JobRow.objects.get(name=refund.name).idempotency_key == "must land"


def test_blocked_bodies_cost_no_capacity(declare: Declarations, gate: Gate, events: Events) -> None:
    slow = declare(lambda run: gate.hold(), timeout="100ms", retry=Retry(attempts=2, delay="1ms"))
    fast = declare()
    slow.enqueue_many([Ping(f"slow-{n}") for n in range(8)], priority=1)
    fast.enqueue_many([Ping(f"fast-{n}") for n in range(100)])
    with on_duty(slow, fast, concurrency=4) as duty:
        wait_until(lambda: states() == {"dead": 8, "done": 100})
        assert {row.attempt for row in JobRow.objects.filter(name=slow.name)} == {2}
        duty.worker.interrupt("SIGTERM")
        assert duty.ended().abandoned == 0, "nobody waits for threads that were given up"

    assert len(body_threads()) >= 16
    gate.open()
    events.wait_for("jobs.timeout.abandoned", 16)
    wait_until(lambda: not body_threads())


def test_a_retry_after_a_timeout_runs_beside_the_body_that_goes_on(
    declare: Declarations, gate: Gate, events: Events
) -> None:
    def body(run: Run[Ping]) -> str:
        if run.attempt == 1:
            gate.hold()
            return "of the first attempt"
        return "of a later attempt"

    ping = declare(body, timeout="100ms", retry=Retry(attempts=50, delay="1ms", max_delay="1ms"))
    ping.enqueue(Ping("a"))
    with on_duty(ping, concurrency=1):
        wait_until(lambda: states() == {"done": 1})
        gate.open()
        events.wait_for("jobs.timeout.abandoned")
        wait_until(lambda: not body_threads() or len(body_threads()) == 1)

    assert JobRow.objects.get().result == "of a later attempt"


def test_a_body_that_is_through_in_time_is_not_disturbed(declare: Declarations) -> None:
    tokens: list[bool] = []
    ping = declare(lambda run: tokens.append(run.signal.aborted), timeout="1m")
    ping.enqueue(Ping("a"))

    work(ping)

    assert tokens == [False]
    assert states() == {"done": 1}


def test_a_body_without_a_timeout_keeps_its_claim_however_long_it_takes(
    declare: Declarations, gate: Gate, events: Events
) -> None:
    starts: list[int] = []

    def body(run: Run[Ping]) -> None:
        starts.append(run.attempt)
        gate.hold()

    ping = declare(body)
    queued = ping.enqueue(Ping("a"))
    often = timedelta(milliseconds=50)
    with (
        on_duty(ping, heartbeat_interval=often) as one,
        on_duty(ping, heartbeat_interval=often) as other,
    ):
        gate.arrived()
        wait_until(lambda: WorkerRow.objects.count() == 2, what="their signs of life")
        JobRow.objects.update(visible_at=Now() - timedelta(hours=1))
        for duty in (one, other):
            wait_until(at_least(len(duty.statements) + 3, duty.statements), what="many claims")
        gate.open()

    row = JobRow.objects.get(id=queued.id)
    assert starts == [1]
    assert (row.state, row.attempt) == ("done", 1)
    assert events.named("jobs.lease.lost") == []


def test_what_a_body_does_after_its_attempt_ended_is_refused_too(
    declare: Declarations, gate: Gate
) -> None:
    refusals: list[str] = []
    other: Job[Ping, object] = declare()
    done = threading.Event()

    def body(run: Run[Ping]) -> None:
        context = copy_context()

        def straggle() -> None:
            gate.hold()
            try:
                context.run(other.enqueue, Ping("too late"))
            except JobsError as refusal:
                refusals.append(refusal.code)
            done.set()

        threading.Thread(target=straggle, daemon=True).start()

    ping = declare(body)
    queued = ping.enqueue(Ping("a"))

    work(ping)
    gate.open()

    assert done.wait(PATIENCE)
    assert refusals == ["X_ABORTED"]
    assert reloaded(JobRow.objects.get(id=queued.id)).state == "done"
    assert not JobRow.objects.filter(name=other.name).exists()
