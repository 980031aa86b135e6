"""Bodies in the transaction of a test, which find none open; async bodies too."""

from __future__ import annotations

import sys
import traceback
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import override_settings

from testproject.shop.models import Order
from tests.builders import Declarations, Ping, rolled_back
from tests.testing.things import Declined, order, references
from ultimate_jobs import AsyncRun, Run
from ultimate_jobs.errors import OutboxNoTransaction
from ultimate_jobs.testing import JobsKit

pytestmark = pytest.mark.django_db


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


def test_what_a_body_leaves_on_a_connection_stays_there(
    jobs: JobsKit, declare: Declarations
) -> None:
    seen: list[str] = []

    def watch(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        seen.append(sql)
        return execute(sql, params, many, context)

    jobs.run_jobs(declare(lambda run: connection.execute_wrappers.append(watch)), Ping("a"))
    seen.clear()
    references()
    connection.execute_wrappers.remove(watch)

    assert len(seen) == 1
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


def test_an_async_body_that_exits_fails_like_any_other(
    jobs: JobsKit, declare: Declarations
) -> None:
    async def leaving(run: AsyncRun[Ping]) -> None:
        sys.exit(3)

    trace = jobs.run_jobs(declare(cast("Any", leaving)), Ping("a"), failures="keep")

    assert (trace.state, trace.attempt) == ("ready", 1)
    assert isinstance(trace.exception, SystemExit)
    assert jobs.run_jobs(declare(), Ping("b")).state == "done"


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
