"""Drains: what runs, in which order, and how failures reach the test."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from django.db import connection, transaction

from tests.builders import Declarations, Ping, rolled_back
from tests.testing.things import Declined, order, references
from ultimate_jobs import Retry, Run
from ultimate_jobs.errors import InvariantError, JobsNeverIdle, RunFailed
from ultimate_jobs.operate.inspection import show_job
from ultimate_jobs.testing import JobsKit

pytestmark = pytest.mark.django_db


# Running


def test_a_job_runs_inside_the_transaction_of_the_test(
    jobs: JobsKit, declare: Declarations
) -> None:
    job = declare(lambda run: run.input.key)

    trace = jobs.run_jobs(job, Ping("a"))

    assert connection.in_atomic_block
    assert (trace.name, trace.state, trace.result, trace.attempt) == (job.name, "done", "a", 1)
    assert show_job(str(trace.id))["state"] == "done"


def test_what_runs_is_answered_in_the_order_of_the_starts(
    jobs: JobsKit, declare: Declarations
) -> None:
    ran: list[str] = []
    job = declare(lambda run: ran.append(run.input.key))
    for key, priority in [("a", 0), ("b", 5), ("c", 0)]:
        job.enqueue(Ping(key), priority=priority)

    traces = jobs.run_jobs()

    assert ran == ["b", "a", "c"]
    assert [trace.state for trace in traces] == ["done"] * 3


def test_jobs_of_every_queue_run_unless_some_are_named(
    jobs: JobsKit, declare: Declarations
) -> None:
    job = declare()
    for queue in ("default", "mail", "reports"):
        job.enqueue(Ping(queue), queue=queue)

    assert len(jobs.run_jobs(queues=["mail"])) == 1
    assert [left.queue for left in jobs.enqueued()] == ["default", "reports"]
    assert len(jobs.run_jobs()) == 2


def test_what_bodies_enqueue_runs_in_the_same_drain(jobs: JobsKit, declare: Declarations) -> None:
    second = declare(lambda run: order(run.input.key).reference)

    def first(run: Run[Ping]) -> None:
        with transaction.atomic():
            second.enqueue(Ping("staged"))
        second.enqueue(Ping("direct"))
        second.enqueue(Ping("apart"), outbox=False)

    jobs.run_jobs(declare(first), Ping("a"))

    assert references() == ["apart", "direct", "staged"]


def test_a_rollback_of_the_test_leaves_no_job(jobs: JobsKit, declare: Declarations) -> None:
    job = declare()

    with rolled_back():
        job.enqueue(Ping("a"))
        assert jobs.depth() == 1

    assert jobs.depth() == 0
    assert jobs.run_jobs() == []


def test_a_key_that_is_live_is_answered_with_its_job(jobs: JobsKit, declare: Declarations) -> None:
    job = declare()

    first, second = job.enqueue(Ping("a")), job.enqueue(Ping("a"))

    assert (second.id, second.deduped) == (first.id, True)
    assert len(jobs.run_jobs()) == 1


def test_a_job_that_enqueues_itself_for_ever_is_named(jobs: JobsKit, declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        job.enqueue(Ping(f"{run.input.key}+"))

    job = declare(body)

    with pytest.raises(JobsNeverIdle, match=rf"100 rounds .*'{job.name}' \(1\)"):
        jobs.run_jobs(job, Ping("a"))


def test_a_body_cannot_drain(jobs: JobsKit, declare: Declarations) -> None:
    with pytest.raises(InvariantError, match="A body drains the queue"):
        jobs.run_jobs(declare(lambda run: jobs.drain()), Ping("a"))


def test_a_full_key_lets_one_run_after_the_other(jobs: JobsKit, declare: Declarations) -> None:
    most: list[int] = []
    job = declare(lambda run: most.append(jobs.in_flight()), concurrency=1)
    job.enqueue_many([Ping(str(n)) for n in range(5)])

    jobs.run_jobs()

    assert len(most) == 5
    assert jobs.depth() == 0


def test_a_job_that_is_declared_anew_runs_as_it_is_now(
    jobs: JobsKit, declare: Declarations
) -> None:
    with Declarations() as before:
        jobs.run_jobs(before(lambda run: "old", name="tests.anew"), Ping("a"))

    job = declare(lambda run: "new", name="tests.anew")

    assert jobs.run_jobs(job, Ping("b")).result == "new"


# Failures


def failing(run: Run[Ping]) -> None:
    raise Declined(run.input.key)


def test_a_failure_reaches_the_test_with_its_traceback(
    jobs: JobsKit, declare: Declarations
) -> None:
    job = declare(failing, retry=Retry(attempts=1))

    with pytest.raises(Declined) as caught:
        jobs.run_jobs(job, Ping("a"))

    assert "failing" in {frame.name for frame in traceback.extract_tb(caught.value.__traceback__)}
    assert f"Job '{job.name}'" in caught.value.__notes__[0]
    assert jobs.depth() == 0


def test_every_job_runs_before_a_failure_is_raised(jobs: JobsKit, declare: Declarations) -> None:
    failed, job = declare(failing), declare(lambda run: order())
    failed.enqueue(Ping("a"), priority=1)
    failed.enqueue(Ping("b"))
    job.enqueue(Ping("c"))

    with pytest.raises(Declined) as caught:
        jobs.run_jobs()

    assert references() == ["a-1"]
    assert "Another job failed: Declined: b" in caught.value.__notes__
    assert jobs.run_jobs() == []


def test_retries_come_with_their_backoff(jobs: JobsKit, declare: Declarations) -> None:
    job = declare(failing, retry=Retry(attempts=3, delay="1m", backoff="fixed", jitter=False))

    trace = jobs.run_jobs(job, Ping("a"), failures="keep")
    assert (trace.state, trace.attempt) == ("ready", 1)
    assert isinstance(trace.exception, Declined)
    jobs.clock.advance("59s")
    assert jobs.run_jobs() == []
    jobs.clock.advance("1s")
    jobs.run_jobs(failures="keep")
    assert trace.attempt == 2
    jobs.run_to_end(failures="keep")

    assert (trace.state, trace.attempt) == ("dead", 3)
    assert "Declined" in str(trace.error)


def test_a_failure_without_an_exception_of_the_body_is_raised_as_well(
    jobs: JobsKit, declare: Declarations
) -> None:
    with pytest.raises(RunFailed, match="no JSON form"):
        jobs.run_jobs(declare(lambda run: object()), Ping("a"))


def test_a_failed_hook_is_raised(jobs: JobsKit, declare: Declarations) -> None:
    def hook(settled: Any) -> None:
        raise Declined("hook")

    with pytest.raises(Declined, match="hook"):
        jobs.run_jobs(declare(on_settled=hook), Ping("a"))

    assert jobs.depth() == 0


def test_a_failing_assertion_in_a_stub_is_never_kept_from_the_test(
    jobs: JobsKit, declare: Declarations
) -> None:
    with pytest.raises(pytest.fail.Exception):
        jobs.run_jobs(declare(lambda run: pytest.fail("no")), Ping("a"), failures="keep")


def test_a_compensation_undoes_what_a_step_did(jobs: JobsKit, declare: Declarations) -> None:
    undone: list[object] = []

    def body(run: Run[Ping]) -> None:
        run.step("charge", lambda: "ch-1", compensate=undone.append)
        raise Declined

    job = declare(body, compensates=True, retry=Retry(attempts=1))
    trace = jobs.run_jobs(job, Ping("a"), failures="keep")

    assert (trace.state, undone) == ("dead", ["ch-1"])
    assert trace.steps["compensate:charge"].executions == 1
