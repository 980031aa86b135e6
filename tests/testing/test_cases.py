"""The kit in the test cases of Django, with a transaction around them and without."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from django.db import connection, transaction
from django.test import TransactionTestCase

from testproject.shop.models import Order
from tests.builders import Declarations, Ping
from ultimate_jobs import AsyncRun, Job, Run
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.testing import JobsMixin, JobsTestCase


def nudging(run: Run[Ping]) -> int:
    run.atomic("order", lambda: Order.objects.create(reference=run.input.key, amount=1).reference)
    run.sleep("3d")
    return run.step("count", Order.objects.count, returns=int)


async def counting(run: AsyncRun[Ping]) -> int:
    return await Order.objects.acount()


def leaving_open(run: Run[Ping]) -> None:
    transaction.set_autocommit(False)
    Order.objects.create(reference="left open", amount=1)


class InATransaction(JobsTestCase):
    counting: ClassVar[Job[Ping, object]]

    @classmethod
    def setUpTestData(cls) -> None:
        declare = cls.enterClassContext(Declarations())
        cls.counting = declare(cast("Any", counting))
        declare(nudging).enqueue(Ping("of the class"))

    def test_what_the_class_enqueued_runs_in_each_test(self) -> None:
        (trace,) = self.jobs.run_jobs()
        assert trace.state == "suspended"
        assert Order.objects.get().reference == "of the class"

    def test_it_runs_again_in_another_test(self) -> None:
        self.test_what_the_class_enqueued_runs_in_each_test()

    def test_a_run_sleeps_and_goes_on(self) -> None:
        (trace,) = self.jobs.run_jobs()
        self.jobs.clock.advance("3d")
        self.jobs.run_jobs()
        assert (trace.state, trace.result) == ("done", 1)

    async def test_an_async_test_enqueues(self) -> None:
        await self.counting.aenqueue(Ping("a"))

    def test_hooks_of_the_test_are_captured(self) -> None:
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            transaction.on_commit(lambda: self.counting.enqueue(Ping("a")))
        assert len(callbacks) == 1
        assert len(self.jobs.run_jobs()) == 2


class WithoutATransaction(JobsMixin, TransactionTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.declare = self.enterContext(Declarations())

    def test_a_run_sleeps_and_goes_on(self) -> None:
        trace = self.jobs.run_jobs(self.declare(nudging), Ping("a"))
        assert not connection.in_atomic_block
        assert trace.state == "suspended"
        self.jobs.clock.advance("3d")
        self.jobs.run_jobs()
        assert (trace.state, trace.result) == ("done", 1)
        assert JobRow.objects.get().state == "done"

    def test_an_async_body_uses_the_connection_of_the_test(self) -> None:
        Order.objects.create(reference="a", amount=1)
        assert self.jobs.run_jobs(self.declare(cast("Any", counting)), Ping("a")).result == 1

    def test_what_a_body_leaves_open_is_rolled_back(self) -> None:
        self.jobs.run_jobs(self.declare(leaving_open), Ping("a"))
        assert Order.objects.count() == 0
        assert connection.get_autocommit()

    def test_jobs_run_inside_a_block_of_the_test(self) -> None:
        with transaction.atomic():
            trace = self.jobs.run_jobs(self.declare(cast("Any", counting)), Ping("a"))
            assert trace.state == "done"
            transaction.set_rollback(True)
        assert JobRow.objects.count() == 0
