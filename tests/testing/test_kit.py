"""The kit inside a test's own transaction."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Self, cast

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import override_settings
from django.utils import timezone

from testproject.shop import partners
from testproject.shop.models import Order
from tests.builders import Declarations, Ping, rolled_back
from ultimate_jobs import AsyncRun, RateLimit, Retry, Run, publish_event, task
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import (
    InvariantError,
    JobsNeverIdle,
    JobTimeout,
    OutboxNoTransaction,
    RunFailed,
)
from ultimate_jobs.operate.inspection import show_job
from ultimate_jobs.testing import Call, JobsKit, clock, jobs_kit

pytestmark = pytest.mark.django_db


ONE = Decimal(1)


class Declined(Exception):
    """A card that is refused."""


def order(reference: str = "a-1") -> Order:
    return Order.objects.create(reference=reference, amount=1)


def references() -> list[str]:
    return list(Order.objects.order_by("reference").values_list("reference", flat=True))


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


# The transaction of the test


def test_a_failed_statement_in_a_body_leaves_the_test_its_transaction(
    jobs: JobsKit, declare: Declarations
) -> None:
    order("a-1")

    def body(run: Run[Ping]) -> str:
        with pytest.raises(IntegrityError):
            order("a-1")
        order("a-2")
        with pytest.raises(DatabaseError), connection.cursor() as cursor:
            cursor.execute("SELECT 1/0")
        return "went on"

    trace = jobs.run_jobs(declare(body), Ping("a"))

    assert trace.result == "went on"
    assert references() == ["a-1", "a-2"]


def test_a_block_of_a_body_is_rolled_back_alone(jobs: JobsKit, declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        order("kept")
        with transaction.atomic():
            order("undone")
            raise Declined

    jobs.run_jobs(declare(body), Ping("a"), failures="keep")

    assert references() == ["kept"]


def test_nested_and_durable_blocks_are_as_in_a_worker(jobs: JobsKit, declare: Declarations) -> None:
    heard: list[str] = []

    def body(run: Run[Ping]) -> None:
        with transaction.atomic(durable=True):
            transaction.on_commit(lambda: heard.append("outer"))
            order("outer")
            with rolled_back():
                transaction.on_commit(lambda: heard.append("inner"))
                order("inner")
            assert heard == []
        assert heard == ["outer"]

    jobs.run_jobs(declare(body), Ping("a"))

    assert heard == ["outer"]
    assert references() == ["outer"]


def test_what_the_test_waits_for_with_its_commit_still_waits(
    jobs: JobsKit, declare: Declarations
) -> None:
    heard: list[str] = []
    transaction.on_commit(lambda: heard.append("test"))

    jobs.run_jobs(declare(), Ping("a"))

    assert heard == []
    assert len(connection.run_on_commit) == 1


def test_a_transaction_that_a_body_leaves_open_is_rolled_back(
    jobs: JobsKit, declare: Declarations
) -> None:
    def body(run: Run[Ping]) -> None:
        transaction.set_autocommit(False)
        order("left open")

    jobs.run_jobs(declare(body), Ping("a"))

    assert references() == []
    assert connection.in_atomic_block


def test_a_deferred_constraint_is_checked_when_a_body_commits(
    jobs: JobsKit, declare: Declarations
) -> None:
    reached: list[str] = []

    def body(run: Run[Ping]) -> None:
        with pytest.raises(IntegrityError):
            commit_a_membership_of_nobody(reached)

    jobs.run_jobs(declare(body), Ping("a"))

    assert reached == ["written"]


@transaction.atomic
def commit_a_membership_of_nobody(reached: list[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO auth_user_groups (user_id, group_id) VALUES (-1, -1)")
    reached.append("written")


def test_the_transaction_of_the_test_is_none_of_the_projects(
    jobs: JobsKit, declare: Declarations
) -> None:
    job = declare()
    with override_settings(ULTIMATE_JOBS={"OUTBOX": "required"}):
        with pytest.raises(OutboxNoTransaction):
            job.enqueue(Ping("a"))
        with transaction.atomic():
            job.enqueue(Ping("b"))
        assert jobs.run_jobs(job, Ping("c")).state == "done"

    assert [one.input for one in jobs.enqueued()] == []


def test_a_step_in_a_block_of_the_body_is_refused_as_in_a_worker(
    jobs: JobsKit, declare: Declarations
) -> None:
    def body(run: Run[Ping]) -> None:
        with transaction.atomic():
            run.step("charge", lambda: 1)

    trace = jobs.run_jobs(declare(body), Ping("a"), failures="keep")

    assert "X_STEP_IN_TRANSACTION" in str(trace.error)


def test_an_atomic_step_that_fails_leaves_neither_effect_nor_record(
    jobs: JobsKit, declare: Declarations
) -> None:
    answers = iter([Declined(), None])

    def reserve() -> None:
        order("reserved")
        answer = next(answers)
        if answer is not None:
            raise answer

    job = declare(lambda run: run.atomic("reserve", reserve))
    trace = jobs.run_jobs(job, Ping("a"), failures="keep")
    assert references() == []
    jobs.run_to_end()

    assert references() == ["reserved"]
    assert trace.steps["reserve"].executions == 2


# Async


def test_an_async_body_works_in_the_transaction_of_the_test(
    jobs: JobsKit, declare: Declarations
) -> None:
    order("a-1")

    async def body(run: AsyncRun[Ping]) -> int:
        assert await run.step("count", Order.objects.acount) == 1
        await run.atomic("order", lambda: order("a-2").reference)
        await run.sleep("1d")
        return await run.atomic("count again", Order.objects.count, returns=int)

    trace = jobs.run_jobs(declare(cast("Any", body)), Ping("a"))
    jobs.clock.advance("1d")
    jobs.run_jobs()

    assert (trace.state, trace.result) == ("done", 2)
    assert trace.steps["count"].executions == 1


def test_an_async_body_that_fails_shows_its_traceback(jobs: JobsKit, declare: Declarations) -> None:
    async def broken(run: AsyncRun[Ping]) -> None:
        raise Declined

    with pytest.raises(Declined) as caught:
        jobs.run_jobs(declare(cast("Any", broken)), Ping("a"))

    assert "broken" in {frame.name for frame in traceback.extract_tb(caught.value.__traceback__)}


def test_an_async_test_runs_jobs_on_the_thread_of_its_connection(
    jobs: JobsKit, declare: Declarations
) -> None:
    async def body(run: AsyncRun[Ping]) -> int:
        return await Order.objects.acount()

    job = declare(cast("Any", body))

    async def asynchronous() -> object:
        await Order.objects.acreate(reference="a-1", amount=1)
        await job.aenqueue(Ping("a"))
        (trace,) = await sync_to_async(jobs.run_jobs)()
        return await sync_to_async(lambda: trace.result)()

    assert async_to_sync(asynchronous)() == 1


# The clock


def test_the_clock_stands_still_until_it_is_moved(jobs: JobsKit) -> None:
    before = timezone.now()

    assert timezone.now() == before == jobs.clock.now()
    assert jobs.clock.advance("90s") == timezone.now() == before + timedelta(seconds=90)


def test_the_clock_moves_to_an_instant(jobs: JobsKit, declare: Declarations) -> None:
    new_year = datetime(2031, 1, 1, tzinfo=UTC)
    job = declare(lambda run: str(timezone.localtime().year))
    job.enqueue(Ping("a"), run_at=new_year)

    jobs.clock.move_to(new_year - timedelta(seconds=1))
    assert jobs.run_jobs() == []
    jobs.clock.move_to(new_year)

    (trace,) = jobs.run_jobs()
    assert trace.result == "2031"


@pytest.mark.parametrize("length", ["soon", -1, None])
def test_what_is_no_length_does_not_move_the_clock(jobs: JobsKit, length: Any) -> None:
    before = jobs.clock.now()

    with pytest.raises(InvariantError):
        jobs.clock.advance(length)
    with pytest.raises(InvariantError, match="time zone"):
        jobs.clock.move_to(datetime(2031, 1, 1))  # noqa: DTZ001 - that is what is refused

    assert jobs.clock.now() == before


def test_python_has_its_own_time_back_after_the_test() -> None:
    with jobs_kit() as kit:
        kit.clock.move_to(datetime(2031, 1, 1, tzinfo=UTC))
        assert timezone.now().year == 2031

    assert timezone.now() < kit.clock.now()
    assert get_driver().name == "postgres"
    assert not isinstance(get_driver(), type(kit._driver))


def test_the_clock_follows_the_one_that_another_library_moves(
    jobs: JobsKit, declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Moved(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Self:
            return cls(2031, 1, 1, tzinfo=tz)

    job = declare()
    job.enqueue(Ping("a"), run_at=datetime(2030, 12, 31, tzinfo=UTC))
    assert jobs.run_jobs() == []
    monkeypatch.setattr(clock, "datetime", Moved)

    jobs.clock.follow_python()

    assert len(jobs.run_jobs()) == 1
    assert timezone.now() == datetime(2031, 1, 1, tzinfo=UTC)
    with pytest.raises(InvariantError, match="follows Python's"):
        jobs.clock.advance("1d")


def test_steps_sleep_and_are_not_repeated(jobs: JobsKit, declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        run.step("charge", lambda: 1)
        run.sleep("3d")
        run.atomic("nudge", lambda: order().reference)

    trace = jobs.run_jobs(declare(body), Ping("a"))
    assert (trace.state, list(trace.steps)) == ("suspended", ["charge", "sleep:3d"])
    jobs.clock.advance("2d")
    assert (jobs.run_jobs(), jobs.due(), jobs.depth()) == ([], 0, 1)
    jobs.clock.advance("1d")
    assert jobs.due() == 1
    (again,) = jobs.run_jobs()

    assert (again.id, trace.state, jobs.depth()) == (trace.id, "done", 0)
    assert trace.steps["charge"].executions == trace.steps["nudge"].executions == 1
    assert trace.steps["nudge"].output == "a-1"
    with pytest.raises(KeyError, match="Its steps: 'charge'"):
        trace.steps["nugde"]


@pytest.mark.parametrize("scope", ["shared", "process"])
def test_a_rate_limit_refills_as_the_clock_moves(
    jobs: JobsKit, declare: Declarations, scope: Any
) -> None:
    limit = RateLimit("testing.calls", limit=1, window="1m", scope=scope)
    job = declare(lambda run: limit.take())
    job.enqueue_many([Ping("a"), Ping("b")])

    jobs.run_jobs()
    assert jobs.depth() == 1
    jobs.clock.advance("2m")
    jobs.run_jobs()

    assert jobs.depth() == 0


def test_a_stub_that_takes_too_long_runs_a_body_out_of_time(
    jobs: JobsKit, declare: Declarations
) -> None:
    slow = jobs.stub("testproject.shop.partners.charge", takes="90s")

    def body(run: Run[Ping]) -> None:
        slow()
        order("too late")

    job = declare(body, timeout="1m", retry=Retry(attempts=1))
    with pytest.raises(JobTimeout):
        jobs.run_jobs(job, Ping("a"))
    trace = jobs.run_jobs(job, Ping("b"), failures="keep")

    assert trace.state == "dead"
    assert references() == []


def test_a_stub_that_takes_too_long_runs_a_step_out_of_time(
    jobs: JobsKit, declare: Declarations
) -> None:
    slow = jobs.stub("testproject.shop.partners.charge", answers=["ch-1"], takes="90s")
    job = declare(lambda run: run.step("charge", slow, timeout="1m"))

    with pytest.raises(JobTimeout, match="step 'charge'"):
        jobs.run_jobs(job, Ping("a"))


def test_a_body_may_take_longer_than_a_lease(jobs: JobsKit, declare: Declarations) -> None:
    jobs.stub("testproject.shop.partners.charge", "ch-1", takes="1h")

    def body(run: Run[Ping]) -> None:
        run.step("charge", lambda: partners.charge("a", ONE, "card", key="k"))
        assert jobs.in_flight() == 1

    trace = jobs.run_jobs(declare(body, concurrency=1), Ping("a"))

    assert (trace.state, trace.steps["charge"].output) == ("done", "ch-1")


def test_a_job_runs_to_its_end_with_one_call(jobs: JobsKit, declare: Declarations) -> None:
    def body(run: Run[Ping]) -> object:
        run.sleep("3d")
        return run.wait_for_event("shipped", "order.shipped", schema=dict, timeout="7d")

    before = jobs.clock.now()
    job = declare(body)
    job.enqueue(Ping("a"), delay="1d")

    (trace,) = jobs.run_to_end()

    assert (trace.state, trace.result) == ("done", None)
    assert jobs.clock.now() - before == timedelta(days=11)


# Events


def waiting(run: Run[Ping]) -> object:
    return run.wait_for_event(
        "shipped", "order.shipped", schema=dict, match=run.input.key, timeout="7d"
    )


def test_an_event_ends_a_wait(jobs: JobsKit, declare: Declarations) -> None:
    trace = jobs.run_jobs(declare(waiting), Ping("a"))

    assert jobs.publish("order.shipped", {"parcel": "p-2"}, key="b") == 0
    assert jobs.publish("order.shipped", {"parcel": "p-1"}, key="a") == 1
    jobs.run_jobs()

    assert (trace.state, trace.result) == ("done", {"parcel": "p-1"})


def test_an_event_of_before_the_wait_does_not_end_it(jobs: JobsKit, declare: Declarations) -> None:
    jobs.publish("order.shipped", {"parcel": "old"}, key="a")

    trace = jobs.run_jobs(declare(waiting), Ping("a"))
    assert trace.state == "suspended"
    jobs.clock.advance("7d")
    jobs.run_jobs()

    assert (trace.state, trace.result) == ("done", None)


def test_an_event_between_a_step_and_a_wait_ends_it(jobs: JobsKit, declare: Declarations) -> None:
    def body(run: Run[Ping]) -> object:
        run.step("ship", lambda: publish_event("order.shipped", {"n": 1}, correlation_key="a"))
        return waiting(run)

    trace = jobs.run_jobs(declare(body), Ping("a"))

    assert (trace.state, trace.result) == ("done", {"n": 1})


def test_an_event_stub_answers_every_wait(jobs: JobsKit, declare: Declarations) -> None:
    shipped = jobs.stub_event("order.shipped", lambda key: None if key == "b" else {"of": key})
    job = declare(waiting)
    job.enqueue_many([Ping("a"), Ping("b")])

    traces = jobs.run_jobs()

    assert [trace.result for trace in traces] == [{"of": "a"}, None]
    assert shipped.answered == [("a", {"of": "a"})]
    assert jobs.depth() == 1


# What was enqueued


def test_what_was_enqueued_is_told_with_its_options(jobs: JobsKit, declare: Declarations) -> None:
    job, other = declare(), declare()
    with transaction.atomic():
        job.enqueue(Ping("a"), delay="1h", priority=3, queue="mail", tenant="acme")
    other.enqueue(Ping("b"))

    (found,) = jobs.enqueued(job)

    assert (found.input, found.name, found.state) == (Ping("a"), job.name, "staged")
    assert (found.queue, found.priority, found.tenant) == ("mail", 3, "acme")
    assert found.run_at == jobs.clock.now() + timedelta(hours=1)
    assert found.idempotency_key == "a"
    assert [(one.input, one.state) for one in jobs.enqueued()] == [
        (Ping("a"), "staged"),
        (Ping("b"), "ready"),
    ]
    jobs.run_jobs()
    assert [one.state for one in jobs.enqueued()] == ["delayed"]
    assert (jobs.due(), jobs.in_flight(), jobs.depth()) == (0, 0, 1)


# Stubs


def test_a_stub_answers_one_after_the_other_and_notes_its_calls(
    jobs: JobsKit, declare: Declarations
) -> None:
    charge = jobs.stub(
        "testproject.shop.partners.charge", "ch-2", answers=[Declined("no"), TimeoutError]
    )
    job = declare(lambda run: partners.charge(run.input.key, ONE, "card", key="k"))

    trace = jobs.run_jobs(job, Ping("a"), failures="keep")
    jobs.run_to_end(failures="keep")

    assert (trace.state, trace.result, trace.attempt) == ("done", "ch-2", 3)
    assert charge.calls == [Call(("a", ONE, "card"), {"key": "k"})] * 3
    assert "called 3 times" in repr(charge)


async def fetch(what: str) -> str:
    raise AssertionError("the world outside was asked")


def test_a_stub_of_a_coroutine_function_is_awaited(jobs: JobsKit, declare: Declarations) -> None:
    asked = jobs.stub(f"{__name__}.fetch", lambda what: f"{what}!")

    async def body(run: AsyncRun[Ping]) -> str:
        return await fetch(run.input.key)

    trace = jobs.run_jobs(declare(cast("Any", body)), Ping("a"))

    assert (trace.result, asked.calls) == ("a!", [Call(("a",))])


# Tasks


def test_a_task_fires_as_the_clock_passes_its_occurrences(
    jobs: JobsKit, declare: Declarations
) -> None:
    job = declare(lambda run: run.input.key)
    hourly = task(
        name="tests.hourly",
        cron="0 * * * *",
        tz="UTC",
        enqueue=lambda at: [(job, Ping(f"{at:%H}"))],
    )
    try:
        jobs.clock.move_to(datetime(2031, 1, 1, 7, 30, tzinfo=UTC))
        jobs.schedule(hourly)
        jobs.clock.advance("29m")
        assert jobs.run_jobs() == []
        jobs.clock.advance("1m")
        assert [trace.result for trace in jobs.run_jobs()] == ["08"]
        jobs.clock.advance("3h")
        assert [trace.result for trace in jobs.run_jobs()] == ["09", "10", "11"]
    finally:
        tasks.discard(hourly)


def test_a_task_that_raises_tells_the_test(jobs: JobsKit) -> None:
    def entries(at: datetime) -> list[Any]:
        raise Declined

    broken = task(name="tests.broken", cron="0 * * * *", tz="UTC", enqueue=entries)
    try:
        jobs.schedule(broken)
        with pytest.raises(Declined):
            jobs.clock.advance("1h")
    finally:
        tasks.discard(broken)
