"""``on_settled``: told once how a job ended, after the ending was written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from tests.builders import PATIENCE, Declarations, Ping, a_job, states, wait_until
from tests.worker.running import (
    Events,
    Gate,
    a_worker_process,
    body_threads,
    cut_waits_short,
    on_duty,
    work,
    work_out,
)
from ultimate_jobs import Job, Retry, Run, Settled, current_actor, current_tenant
from ultimate_jobs.core.settlement import Ending
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.worker.hooks import Hook
from ultimate_jobs.worker.threads import BodyThreads

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)


class CardError(Exception):
    code = "CARD"


def fail(run: Run[Ping]) -> None:
    raise CardError("boom")


def test_a_hook_is_told_of_a_completion_with_the_stored_result(declare: Declarations) -> None:
    told: list[Settled[Ping]] = []
    ping = declare(lambda run: {"sum": (1, 2)}, on_settled=told.append)
    queued = ping.enqueue(Ping("a"))

    work(ping)

    (settled,) = told
    assert settled.outcome is Ending.COMPLETED
    assert (settled.job_id, settled.run_id, settled.attempt) == (queued.id, queued.run_id, 1)
    assert settled.input == Ping("a")
    assert settled.result == {"sum": [1, 2]}
    assert (settled.error, settled.code) == (None, None)


@pytest.mark.parametrize(
    ("dead_letter", "outcome"), [(True, Ending.DEAD_LETTERED), (False, Ending.DROPPED)]
)
def test_a_hook_is_told_of_a_failure_for_good_and_not_of_the_retries_before(
    declare: Declarations, *, dead_letter: bool, outcome: Ending
) -> None:
    told: list[Settled[Ping]] = []
    ping = declare(fail, retry=Retry(attempts=3, dead_letter=dead_letter), on_settled=told.append)
    queued = ping.enqueue(Ping("a"))

    work(ping)
    cut_waits_short()
    work(ping)
    assert told == []
    work_out(ping)

    (settled,) = told
    assert settled.outcome is outcome
    assert (settled.job_id, settled.attempt) == (queued.id, 3)
    assert settled.input == Ping("a")
    assert settled.result is None
    assert settled.error == JobRow.objects.get().last_error
    assert settled.code == "CARD"


@pytest.mark.parametrize(
    ("dead_letter", "outcome", "state"),
    [(True, Ending.DEAD_LETTERED, "dead"), (False, Ending.DROPPED, "failed")],
)
def test_a_hook_is_told_of_a_burial(
    declare: Declarations, *, dead_letter: bool, outcome: Ending, state: str
) -> None:
    told: list[Settled[Ping]] = []
    ping = declare(retry=Retry(dead_letter=dead_letter), on_settled=told.append)
    row = a_job(
        JobState.RUNNING,
        name=ping.name,
        attempt=3,
        visible_for=-SECOND,
        input={"key": "a", "org": "acme", "load": None},
    )

    work(ping)

    (settled,) = told
    assert (settled.outcome, settled.job_id, settled.attempt) == (outcome, row.id, 3)
    assert (settled.input, settled.code) == (Ping("a"), "X_JOB_LEASE_LOST")
    assert settled.error == JobRow.objects.get().last_error
    assert states() == {state: 1}


def test_a_hook_is_told_without_an_input_when_the_stored_one_does_not_parse(
    declare: Declarations,
) -> None:
    told: list[Settled[Ping]] = []
    ping = declare(on_settled=told.append)
    ping.enqueue(Ping("a"))
    JobRow.objects.update(input=[1, 2])

    work(ping)

    (settled,) = told
    assert settled.outcome is Ending.DEAD_LETTERED
    assert (settled.input, settled.code) == (None, "X_JOB_INPUT_INVALID")


def test_a_hook_runs_after_the_ending_was_written_and_its_own_writes_land(
    declare: Declarations,
) -> None:
    seen: list[str] = []
    follow_up = declare()

    def hook(settled: Settled[Ping]) -> None:
        seen.append(JobRow.objects.get(id=settled.job_id).state)
        assert not settled.signal.aborted
        follow_up.enqueue(Ping("next"))

    ping = declare(on_settled=hook)
    ping.enqueue(Ping("a"))

    work(ping)

    assert seen == ["done"]
    assert JobRow.objects.get(name=follow_up.name).state == "ready"


def test_a_hook_may_enqueue_the_same_key_again_for_the_job_is_over(declare: Declarations) -> None:
    def hook(settled: Settled[Ping]) -> None:
        if JobRow.objects.count() == 1:
            assert not ping.enqueue(Ping("a")).deduped

    ping: Job[Ping, object] = declare(on_settled=hook)
    ping.enqueue(Ping("a"))

    work_out(ping)

    assert states() == {"done": 2}


def test_a_hook_works_for_the_jobs_tenant(declare: Declarations) -> None:
    seen: list[str] = []
    ping = declare(tenant=lambda i: i.org, on_settled=lambda settled: seen.append(current_tenant()))
    ping.enqueue(Ping("a", org="acme"))

    work(ping)

    assert seen == ["acme"]


def test_a_hook_of_an_input_that_does_not_parse_works_for_no_tenant(
    declare: Declarations,
) -> None:
    seen: list[Any] = []
    ping = declare(tenant=lambda i: i.org, on_settled=lambda settled: seen.append(current_actor()))
    ping.enqueue(Ping("a"))
    JobRow.objects.update(input="no mapping")

    work(ping)

    assert [actor.org for actor in seen] == [None]


def test_a_hook_is_tried_three_times_and_then_its_failure_is_logged(
    declare: Declarations, events: Events
) -> None:
    tries: list[int] = []

    def hook(settled: Settled[Ping]) -> None:
        tries.append(1)
        raise SystemExit("secret words")

    ping = declare(on_settled=hook)
    queued = ping.enqueue(Ping("a"))

    work(ping)

    assert len(tries) == 3
    (said,) = events.named("jobs.on-settled.failed")
    assert said == {
        "id": queued.id,
        "name": ping.name,
        "code": "X_JOB_ON_SETTLED_FAILED",
        "error": "SystemExit",
    }
    assert "secret words" not in events.lines()
    assert states() == {"done": 1}


def test_a_hook_that_succeeds_at_last_is_not_a_failure(
    declare: Declarations, events: Events
) -> None:
    tries: list[int] = []

    def hook(settled: Settled[Ping]) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise LookupError

    ping = declare(on_settled=hook)
    ping.enqueue(Ping("a"))

    work(ping)

    assert len(tries) == 3
    assert events.named("jobs.on-settled.failed") == []


def test_a_hook_out_of_time_is_told_so_and_not_tried_again(
    declare: Declarations, events: Events
) -> None:
    reasons: list[object] = []

    def hook(settled: Settled[Ping]) -> None:
        assert settled.signal.wait(PATIENCE)
        reasons.append(settled.signal.reason)
        settled.signal.raise_if_aborted()

    ping = declare(on_settled=hook, on_settled_timeout="100ms")
    ping.enqueue(Ping("a"))

    work(ping)

    (said,) = events.wait_for("jobs.on-settled.failed")
    assert said["error"] == "JobTimeout"
    wait_until(lambda: reasons, what="the hook to stop")
    assert [getattr(reason, "code", None) for reason in reasons] == ["X_JOB_TIMEOUT"]
    assert states() == {"done": 1}


def test_a_hook_that_ignores_the_end_of_its_time_gives_its_slot_back_and_is_reported(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    def hook(settled: Settled[Ping]) -> None:
        gate.hold()

    ping, other = declare(on_settled=hook, on_settled_timeout="100ms"), declare()
    with on_duty(ping, other, concurrency=1):
        ping.enqueue(Ping("stuck"))
        gate.arrived()
        other.enqueue_many([Ping("b"), Ping("c")])

        (said,) = events.wait_for("jobs.on-settled.failed")
        assert said["error"] == "JobTimeout"
        wait_until(lambda: states() == {"done": 3})
        gate.open()

    wait_until(lambda: not body_threads())
    assert len(events.named("jobs.on-settled.failed")) == 1


def test_no_hook_is_called_for_an_ending_that_missed_its_row(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    told: list[Settled[Ping]] = []
    ping = declare(lambda run: gate.hold(), on_settled=told.append)
    queued = ping.enqueue(Ping("a"))
    with on_duty(ping):
        gate.arrived()
        JobRow.objects.update(state="cancelled", claimed_by=None, visible_at=None)
        gate.open()
        events.wait_for("jobs.settle.unowned")

    assert [said["id"] for said in events.named("jobs.settle.unowned")] == [queued.id]
    assert told == []


def test_no_hook_is_called_for_an_attempt_that_was_handed_back(declare: Declarations) -> None:
    told: list[Settled[Ping]] = []
    started = threading.Event()

    def body(run: Run[Ping]) -> None:
        started.set()
        run.signal.wait(PATIENCE)
        run.signal.raise_if_aborted()

    ping = declare(body, on_settled=told.append)
    ping.enqueue(Ping("a"))
    with on_duty(ping) as duty:
        assert started.wait(PATIENCE)
        duty.worker.interrupt("SIGTERM")
        duty.ended()

    assert told == []
    assert states() == {"ready": 1}


def test_a_try_that_leaves_a_transaction_open_takes_no_later_write_along(
    declare: Declarations, events: Events
) -> None:
    tries: list[int] = []
    follow_up = declare()

    def hook(settled: Settled[Ping]) -> None:
        tries.append(1)
        if len(tries) == 1:
            transaction.set_autocommit(False)
            raise LookupError
        follow_up.enqueue(Ping("next"))

    ping = declare(on_settled=hook)
    queued = ping.enqueue(Ping("a"))

    work(ping)

    assert len(tries) == 2
    assert JobRow.objects.get(name=follow_up.name).state == "ready"
    (said,) = events.named("jobs.body.transaction-left-open")
    assert (said["id"], said["alias"]) == (queued.id, "default")


def test_a_worker_that_is_told_to_stop_waits_for_its_hooks(
    declare: Declarations, gate: Gate
) -> None:
    through: list[str] = []

    def hook(settled: Settled[Ping]) -> None:
        gate.hold()
        through.append("told")

    ping = declare(on_settled=hook)
    ping.enqueue(Ping("a"))
    with on_duty(ping) as duty:
        gate.arrived()
        duty.worker.stop()
        gate.open()
        assert duty.ended().abandoned == 0

    assert through == ["told"]


def test_a_hook_that_waits_for_a_thread_is_told_although_its_worker_leaves(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Settled[Ping]] = []
    ping = declare(on_settled=told.append)
    ping.enqueue(Ping("a"))
    worker = a_worker_process(ping, concurrency=1)

    def line_up_and_be_told_to_leave(task: Callable[[Any], bool], things: Sequence[Any]) -> None:
        if any(isinstance(thing, Hook) for thing in things):
            worker._threads.line_up(task, things)
            worker.interrupt("SIGTERM")
        else:
            BodyThreads.start(worker._threads, task, things)

    monkeypatch.setattr(worker._threads, "start", line_up_and_be_told_to_leave)
    worker.run()

    assert len(told) == 1
    assert worker.stats.abandoned == 0
