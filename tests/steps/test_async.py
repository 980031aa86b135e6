"""``async def`` bodies: the same promises, on one event loop for the whole worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from decimal import Decimal, getcontext
from typing import Any, cast

import pytest
from asgiref.sync import sync_to_async
from django.db.backends.signals import connection_created
from django.utils import timezone, translation

from testproject.shop.models import Order
from tests.builders import PATIENCE, Body, Declarations, Ping, out_of_time, staged, wait_until
from tests.steps.runs import (
    ONCE,
    TWICE,
    Calls,
    FirstTime,
    finish,
    make_due,
    row,
    start,
    state,
    trace,
    wait_for_state,
    work,
    working,
)
from tests.steps.wire import exchanges
from ultimate_jobs import AsyncRun, Job, JobsError, Retry, apublish_event
from ultimate_jobs.operate.verbs import cancel_job

pytestmark = pytest.mark.django_db(transaction=True)

AsyncBody = Callable[[AsyncRun[Ping]], Awaitable[object]]


def declared(declare: Declarations, body: AsyncBody, **options: Any) -> Job[Ping, object]:
    return declare(cast("Body", body), **{"retry": TWICE, **options})


def to_the_end(handle: Job[Ping, object], load: Any = None) -> Any:
    queued = start(handle, load)
    finish(queued)
    return row(queued)


class TestSteps:
    def test_plain_and_async_functions_run_once_and_answer_what_was_stored(
        self, declare: Declarations
    ) -> None:
        calls, fails = Calls(), FirstTime()

        async def think() -> tuple[int, int]:
            await asyncio.sleep(0)
            calls.append("async")
            return (1, 2)

        async def body(run: AsyncRun[Ping]) -> object:
            answers = [
                await run.step("async", think),
                await run.step("plain", calls("plain", Decimal("1.10"))),
                await run.step("typed", lambda: "1.10", returns=Decimal),
            ]
            fails()
            return answers

        ended = to_the_end(declared(declare, body))

        assert calls == ["async", "plain"]
        assert (ended.state, ended.result) == ("done", [[1, 2], "1.10", "1.10"])

    @pytest.mark.counts_claims
    def test_a_step_is_one_statement(self, declare: Declarations) -> None:
        async def body(run: AsyncRun[Ping]) -> None:
            for number in range(3):
                await run.step(f"step {number}", lambda: 1)

        start(declared(declare, body))
        with exchanges() as seen:
            work()

        assert [name for name in seen if name not in ("CLAIM", "OUTBOX_RELAY")] == [
            *["STEP_PUT"] * 3,
            "SETTLE",
        ]

    def test_an_atomic_step_is_one_commit_and_is_undone_as_one(self, declare: Declarations) -> None:
        mail = declare()
        fails = FirstTime()

        def sell() -> int:
            order = Order.objects.create(reference="o-1", amount=Decimal(5))
            mail.enqueue(Ping("mail"))
            fails()
            return int(order.pk)

        async def body(run: AsyncRun[Ping]) -> object:
            return await run.atomic("sell", sell)

        queued = start(declared(declare, body, retry=Retry(attempts=2, delay="1h")))
        work()
        assert (Order.objects.count(), staged(mail.name)) == (0, [])
        finish(queued)

        assert row(queued).result == Order.objects.get().pk

    def test_an_at_most_once_step_that_raised_stops_the_job(self, declare: Declarations) -> None:
        calls = Calls()

        async def charge() -> None:
            calls.append("charge")
            raise RuntimeError("who knows")

        async def body(run: AsyncRun[Ping]) -> None:
            await run.step("charge", charge, once=True)

        ended = to_the_end(declared(declare, body))

        assert calls == ["charge"]
        assert "X_STEP_OUTCOME_UNKNOWN" in str(ended.last_error)

    def test_two_tasks_that_use_one_name_do_not_both_run(self, declare: Declarations) -> None:
        calls = Calls()

        async def body(run: AsyncRun[Ping]) -> list[str]:
            both = await asyncio.gather(
                run.step("x", calls("x")), run.step("x", calls("x")), return_exceptions=True
            )
            return [error.code for error in both if isinstance(error, JobsError)]

        ended = to_the_end(declared(declare, body))

        assert (calls, ended.result) == (["x"], ["X_STEP_DUPLICATE"])

    def test_a_step_inside_a_step_is_refused(self, declare: Declarations) -> None:
        async def body(run: AsyncRun[Ping]) -> None:
            async def outer() -> None:
                await run.step("inner", lambda: None)

            await run.step("outer", outer)

        ended = to_the_end(declared(declare, body))

        assert "X_STEP_NESTED" in str(ended.last_error)

    def test_steps_side_by_side_are_fine(self, declare: Declarations) -> None:
        async def body(run: AsyncRun[Ping]) -> object:
            async def one(number: int) -> int:
                await asyncio.sleep(0)
                return number

            def calling(number: int) -> Callable[[], Awaitable[int]]:
                return lambda: one(number)

            return await asyncio.gather(*(run.step(f"step {n}", calling(n)) for n in range(5)))

        ended = to_the_end(declared(declare, body))

        assert ended.result == [0, 1, 2, 3, 4]
        assert len(trace(ended)) == 5


class TestSuspensions:
    def test_it_sleeps_and_waits_and_goes_on(self, declare: Declarations) -> None:
        calls = Calls()

        async def body(run: AsyncRun[Ping]) -> object:
            await run.step("before", calls("before"))
            await run.sleep("3d")
            paid = await run.wait_for_event("payment", "paid", schema=dict)
            await run.step("after", calls("after"))
            return paid

        async def teller(run: AsyncRun[Ping]) -> None:
            await apublish_event("paid", {"amount": 7})

        queued = start(declared(declare, body))
        work()
        assert (state(queued), row(queued).attempt) == ("suspended", 0)
        make_due()
        work()
        assert trace(queued)[-1] == ("payment", "waiting")
        start(declared(declare, teller))
        work()

        assert (state(queued), row(queued).result) == ("done", {"amount": 7})
        assert calls == ["before", "after"]

    @pytest.mark.parametrize("swallow", [Exception, BaseException])
    def test_a_body_that_swallows_it_is_suspended_all_the_same(
        self, declare: Declarations, swallow: type[BaseException]
    ) -> None:
        calls = Calls()

        async def body(run: AsyncRun[Ping]) -> str:
            with suppress(swallow):
                await run.sleep("3d")
            await run.step("after", calls("after"))
            return "swallowed"

        queued = start(declared(declare, body))
        work()

        assert (state(queued), row(queued).result) == ("suspended", None)
        assert calls == []


class TestCancellation:
    def test_a_timeout_cancels_the_task(self, declare: Declarations) -> None:
        seen: list[str] = []

        async def body(run: AsyncRun[Ping]) -> None:
            try:
                seen.append("asleep")
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        with out_of_time(lambda: seen):
            ended = to_the_end(declared(declare, body, retry=ONCE, timeout="50ms"))

        assert seen == ["asleep", "cancelled"]
        assert ended.state == "dead"
        assert "X_JOB_TIMEOUT" in str(ended.last_error)

    def test_a_task_that_goes_on_writes_nothing(self, declare: Declarations) -> None:
        met: list[str] = []
        mail = declare()
        inside = threading.Event()

        async def body(run: AsyncRun[Ping]) -> None:
            with suppress(asyncio.CancelledError):
                inside.set()
                await asyncio.sleep(PATIENCE)
            for act in (
                lambda: run.step("late", lambda: None),
                lambda: mail.aenqueue(Ping("late")),
                lambda: Order.objects.acreate(reference="late", amount=Decimal(5)),
                lambda: apublish_event("late", {}),
            ):
                try:
                    await cast("Callable[[], Awaitable[object]]", act)()
                except JobsError as error:
                    met.append(error.code)

        queued = start(declared(declare, body, retry=ONCE, timeout="50ms"))
        with out_of_time(inside.is_set):
            work()

        assert met == ["X_ABORTED", *["X_JOB_TIMEOUT"] * 3]
        assert (Order.objects.count(), staged(), trace(queued)) == (0, [], [])

    def test_a_drain_interrupts_it_uncounted(self, declare: Declarations) -> None:
        inside = threading.Event()

        async def body(run: AsyncRun[Ping]) -> None:
            await run.step("first", lambda: None)
            if not inside.is_set():
                inside.set()
                await asyncio.sleep(PATIENCE)

        queued = start(declared(declare, body, retry=ONCE))
        with working() as worker:
            assert inside.wait(PATIENCE)
            worker.interrupt("SIGTERM")

        assert (state(queued), row(queued).attempt) == ("ready", 0)
        work()
        assert state(queued) == "done"

    @pytest.mark.counts_claims
    def test_a_step_past_its_ceiling_is_cancelled_and_the_body_may_go_on(
        self, declare: Declarations
    ) -> None:
        seen: list[str] = []

        async def slow() -> None:
            try:
                seen.append("asleep")
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async def body(run: AsyncRun[Ping]) -> object:
            try:
                await run.step("slow", slow, timeout="50ms")
            except JobsError as error:
                code = error.code
                return await run.step("instead", lambda: code)
            return None

        with out_of_time(lambda: seen):
            ended = to_the_end(declared(declare, body, retry=ONCE))

        assert seen == ["asleep", "cancelled"]
        assert (ended.state, ended.result) == ("done", "X_JOB_TIMEOUT")
        assert trace(ended) == [("slow", "failed"), ("instead", "completed")]

    def test_a_cancelled_run_hears_of_it_at_its_next_step(self, declare: Declarations) -> None:
        async def body(run: AsyncRun[Ping]) -> None:
            await sync_to_async(cancel_job)(str(run.job_id))
            await run.step("late", lambda: None)

        queued = start(declared(declare, body))
        work()

        assert state(queued) == "cancelled"
        assert trace(queued) == []


class TestSharing:
    def test_many_bodies_share_one_loop_and_run_side_by_side(self, declare: Declarations) -> None:
        loops: set[int] = set()
        threads: set[int] = set()
        all_there = asyncio.Barrier(8)

        async def body(run: AsyncRun[Ping]) -> None:
            loops.add(id(asyncio.get_running_loop()))
            threads.add(threading.get_ident())
            async with asyncio.timeout(PATIENCE):
                await all_there.wait()

        handle = declared(declare, body)
        queued = [start(handle) for _ in range(8)]
        work(concurrency=8)

        assert {state(one) for one in queued} == {"done"}
        assert (len(loops), len(threads)) == (1, 1)

    def test_their_connections_are_bounded_and_closed(self, declare: Declarations) -> None:
        most: list[int] = []
        opened: list[Any] = []

        def note(sender: Any, connection: Any, **more: Any) -> None:
            if threading.current_thread() is not threading.main_thread():
                opened.append(connection)

        def open_now() -> int:
            return sum(one.connection is not None for one in opened)

        async def body(run: AsyncRun[Ping]) -> None:
            await run.step("read", lambda: None)
            await Order.objects.acount()
            most.append(open_now())

        handle = declared(declare, body)
        connection_created.connect(note)
        queued = [start(handle) for _ in range(40)]
        with working(concurrency=4):
            for one in queued:
                wait_for_state(one, "done")

        # Dispatcher and heartbeat, a thread for each body, and one connection for each coroutine.
        assert 1 < max(most) <= 2 + 2 * 4
        wait_until(lambda: open_now() == 0, what="every connection to be closed")

    def test_a_transaction_of_one_body_is_not_seen_by_another(self, declare: Declarations) -> None:
        both = threading.Barrier(2)

        async def body(run: AsyncRun[Ping]) -> int:
            def sell() -> int:
                Order.objects.create(reference=run.input.key, amount=Decimal(5))
                both.wait(PATIENCE)
                seen = Order.objects.count()
                both.wait(PATIENCE)
                return seen

            return int(str(await run.atomic("sell", sell)))

        handle = declared(declare, body)
        queued = [start(handle) for _ in range(2)]
        work()

        assert [row(one).result for one in queued] == [1, 1]


LEAK: ContextVar[str] = ContextVar("leak", default="clean")


class TestContexts:
    @pytest.mark.parametrize("ending", ["returns", "raises", "suspends", "times out"])
    def test_what_a_body_sets_does_not_reach_the_next_one(
        self, declare: Declarations, ending: str
    ) -> None:
        def facts() -> list[str]:
            return [
                translation.get_language(),
                timezone.get_current_timezone_name(),
                LEAK.get(),
                str(getcontext().prec),
            ]

        async def first(run: AsyncRun[Ping]) -> None:
            translation.activate("de")
            timezone.activate("Asia/Tokyo")
            LEAK.set("leaked")
            getcontext().prec = 3
            await sync_to_async(translation.activate)("de")
            match ending:
                case "raises":
                    raise RuntimeError
                case "suspends":
                    await run.sleep("3d")
                case "times out":
                    await asyncio.sleep(PATIENCE)
                case _:
                    pass

        async def second(run: AsyncRun[Ping]) -> object:
            return [facts(), await sync_to_async(facts)()]

        start(declared(declare, first, retry=ONCE, timeout="100ms"))
        follower = start(declared(declare, second))
        work(concurrency=1)

        assert row(follower).result == [["en-us", "UTC", "clean", "28"]] * 2
