"""Events that come while a run goes to sleep: none is lost, and each wait has one end."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest
from django.db import transaction

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    at_once,
    second_connection,
    sql,
    wait_until,
)
from tests.steps.runs import (
    TWICE,
    FirstTime,
    make_due,
    row,
    start,
    state,
    step_of,
    wait_for_state,
    work,
    working,
)
from tests.steps.wire import Say, hooked
from ultimate_jobs import Enqueued, Job, Retry, Run, publish_event
from ultimate_jobs.models import Job as JobRow, JobStep

pytestmark = pytest.mark.django_db(transaction=True)

RUNS = 200


def waits(declare: Declarations, **options: Any) -> Job[Ping, object]:
    def body(run: Run[Ping]) -> Any:
        return run.wait_for_event("payment", "paid", schema=dict, **options)

    return declare(body, retry=TWICE)


class Publisher:
    """A transaction on another connection, which goes on when it is told to."""

    def __init__(self, *, before_publishing: str = "SELECT 1") -> None:
        self._opened, self._publish = threading.Event(), threading.Event()
        self._published, self._commit = threading.Event(), threading.Event()
        self._first = before_publishing
        self._running = second_connection(self._hold)
        assert self._opened.wait(PATIENCE)

    def publish(self) -> None:
        self._publish.set()
        assert self._published.wait(PATIENCE)

    def commit(self) -> None:
        self._commit.set()
        self._running.result(PATIENCE)

    def _hold(self) -> None:
        with transaction.atomic():
            sql(self._first)
            self._opened.set()
            assert self._publish.wait(PATIENCE)
            publish_event("paid", {"amount": 7})
            self._published.set()
            assert self._commit.wait(PATIENCE)


class TestOpenPublishers:
    @pytest.mark.parametrize(
        "first",
        [
            "SELECT pg_current_xact_id()",
            "SELECT 1",
            "INSERT INTO x_job_pauses (kind, name) VALUES ('queue', 'other')",
        ],
        ids=["has an id", "has none", "has written"],
    )
    def test_one_that_began_before_the_wait_and_commits_after_it_is_delivered(
        self, declare: Declarations, first: str
    ) -> None:
        publisher = Publisher(before_publishing=first)
        queued = start(waits(declare))
        with working():
            wait_for_state(queued, "suspended")
            publisher.publish()
            publisher.commit()
            wait_for_state(queued, "done")

        assert row(queued).result == {"amount": 7}

    def test_one_that_published_before_the_wait_and_commits_after_it_is_delivered(
        self, declare: Declarations
    ) -> None:
        publisher = Publisher()
        publisher.publish()
        queued = start(waits(declare))
        with working():
            wait_for_state(queued, "suspended")
            publisher.commit()
            wait_for_state(queued, "done")

        assert row(queued).result == {"amount": 7}

    def test_while_one_is_open_the_run_is_looked_at_every_second(
        self, declare: Declarations
    ) -> None:
        publisher = Publisher()
        publisher.publish()
        queued = start(waits(declare))
        work()

        ((due_in,),) = sql("SELECT extract(epoch FROM run_at - now()) FROM x_jobs")
        assert due_in < 2
        publisher.commit()
        sql("UPDATE x_jobs SET run_at = now()")
        work()
        assert state(queued) == "done"

    def test_a_transaction_that_does_not_publish_is_not_waited_for(
        self, declare: Declarations
    ) -> None:
        publisher = Publisher(before_publishing="SELECT pg_current_xact_id()")
        start(waits(declare))
        work()

        ((due_in,),) = sql("SELECT extract(epoch FROM run_at - now()) FROM x_jobs")
        assert due_in > 60
        publisher.publish()
        publisher.commit()

    def test_the_clock_of_a_worker_has_no_say(self, declare: Declarations) -> None:
        queued = start(waits(declare))
        work()
        sql(
            "UPDATE x_job_steps SET started_at = started_at + interval '5 minutes',"
            " wake_at = wake_at + interval '5 minutes'"
        )

        publish_event("paid", {"amount": 7})
        work()

        assert row(queued).result == {"amount": 7}


class TestReactions:
    """Whoever reacts to a step of the run publishes after it: no moment of that is too early."""

    @pytest.mark.parametrize("kind", ["step", "atomic", "wait"])
    @pytest.mark.parametrize("crashes", [False, True], ids=["at once", "and the run crashes"])
    def test_an_answer_to_the_step_before_the_wait_is_delivered(
        self, declare: Declarations, kind: str, *, crashes: bool
    ) -> None:
        answer = FirstTime()
        crash = FirstTime()

        def body(run: Run[Ping]) -> Any:
            run.step("earlier", lambda: None)
            if kind == "wait":
                run.wait_for_event("order", "ordered", schema=dict, timeout="1ms")
            else:
                (run.step if kind == "step" else run.atomic)("order", lambda: None)
            try:
                answer()
            except RuntimeError:
                second_connection(lambda: publish_event("paid", {"amount": 7})).result(PATIENCE)
                if crashes:
                    crash()
            return run.wait_for_event("payment", "paid", schema=dict)

        queued = start(declare(body, retry=TWICE))
        with working():
            wait_for_state(queued, "done")

        assert row(queued).result == {"amount": 7}

    def test_an_answer_that_comes_while_the_step_still_runs_is_delivered(
        self, declare: Declarations
    ) -> None:
        def order() -> None:
            second_connection(lambda: publish_event("paid", {"amount": 7})).result(PATIENCE)

        def body(run: Run[Ping]) -> Any:
            run.step("order", order)
            return run.wait_for_event("payment", "paid", schema=dict)

        queued = start(declare(body))
        with working():
            wait_for_state(queued, "done")

        assert row(queued).result == {"amount": 7}

    def test_one_that_comes_while_the_run_is_on_its_way_to_sleep_is_delivered(
        self, declare: Declarations
    ) -> None:
        early = FirstTime()

        def publish_first(name: str, say: Say) -> Any:
            if name == "SETTLE":
                try:
                    early()
                except RuntimeError:
                    second_connection(lambda: publish_event("paid", {"amount": 7})).result(PATIENCE)
            return say()

        def body(run: Run[Ping]) -> Any:
            run.step("order", lambda: None)
            return run.wait_for_event("payment", "paid", schema=dict)

        queued = start(declare(body))
        with hooked(publish_first), working():
            wait_for_state(queued, "done")

        assert row(queued).result == {"amount": 7}

    def test_what_was_published_before_the_step_is_old(self, declare: Declarations) -> None:
        earlier = FirstTime()

        def body(run: Run[Ping]) -> Any:
            try:
                earlier()
            except RuntimeError:
                publish_event("paid", {"amount": 1})
            run.step("before", lambda: None)
            run.step("order", lambda: None)
            return run.wait_for_event("payment", "paid", schema=dict)

        queued = start(declare(body))
        work()
        sql("UPDATE x_jobs SET run_at = now()")
        work()

        assert state(queued) == "suspended"

    def test_what_was_published_during_a_sleep_before_the_wait_is_old(
        self, declare: Declarations
    ) -> None:
        def body(run: Run[Ping]) -> Any:
            run.sleep("3d")
            return run.wait_for_event("payment", "paid", schema=dict)

        queued = start(declare(body))
        work()
        publish_event("paid", {"amount": 1})
        make_due()
        work()
        sql("UPDATE x_jobs SET run_at = now()")
        work()

        assert state(queued) == "suspended"


def test_none_is_lost_that_is_published_while_the_run_suspends(declare: Declarations) -> None:
    ready: SimpleQueue[str | None] = SimpleQueue()
    pause = threading.Event()
    dice = random.Random(20)  # noqa: S311 - a test that can be repeated

    def body(run: Run[Ping]) -> Any:
        run.step("ready", lambda: None)
        ready.put(run.input.key)
        return run.wait_for_event("payment", "paid", schema=dict, match=run.input.key, timeout="6h")

    def pay() -> None:
        while (key := ready.get()) is not None:
            pause.wait(dice.choice([0, 0, 0.001, 0.002, 0.005]))
            publish_event("paid", {"key": key}, correlation_key=key)

    handle = declare(body)
    queued = [start(handle) for _ in range(RUNS)]
    paying = second_connection(pay)
    with working(concurrency=8):
        wait_until(lambda: not unfinished(), what="every run to be paid")
        ready.put(None)
        paying.result(PATIENCE)

    assert [row(one).result for one in queued] == [{"key": row(one).input["key"]} for one in queued]


def unfinished() -> int:
    return JobRow.objects.exclude(state="done").count()


def pay(queued: Enqueued) -> None:
    key = row(queued).input["key"]
    publish_event("paid", {"key": key}, correlation_key=key)


def time_out(queued: Enqueued) -> None:
    """Let the time of a wait be over, unless it has ended already."""
    sql(
        "UPDATE x_job_steps SET wake_at = now() WHERE run_id = %s AND status = 'waiting'",
        [queued.run_id],
    )
    sql("UPDATE x_jobs SET run_at = now() WHERE id = %s AND state = 'suspended'", [queued.id])


def test_an_event_and_a_timeout_at_once_have_one_winner_that_every_replay_keeps(
    declare: Declarations,
) -> None:
    answers: dict[str, list[Any]] = {}
    lock, gate, pause = threading.Lock(), threading.Barrier(2), threading.Event()

    def body(run: Run[Ping]) -> Any:
        answer = run.wait_for_event(
            "payment", "paid", schema=dict, match=run.input.key, timeout="6h"
        )
        with lock:
            answers.setdefault(run.input.key, []).append(answer)
        if run.attempt == 1:
            raise RuntimeError("the worker is killed after the resume")
        return answer

    handle = declare(body, retry=Retry(attempts=2, delay="1ms", jitter=False))
    paid_before, timed_out_before, *raced = [start(handle) for _ in range(2 + RUNS)]
    work(concurrency=8)

    def each(act: Callable[[Enqueued], None], seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311 - a test that can be repeated
        for one in raced:
            gate.wait(PATIENCE)
            pause.wait(dice.choice([0, 0, 0.001, 0.005]))
            act(one)

    pay(paid_before)
    time_out(paid_before)
    with working(concurrency=4):
        time_out(timed_out_before)
        wait_for_state(timed_out_before, "done")
        pay(timed_out_before)
        at_once(lambda: each(pay, 50), lambda: each(time_out, 51))
        wait_until(lambda: not unfinished(), what="every run to end")

    for one in (paid_before, timed_out_before, *raced):
        ended = row(one)
        first, *others = answers[ended.input["key"]]
        assert others
        assert all(other == first for other in others)
        assert ended.result == first
        stored = step_of(one, "payment").output
        assert stored == (None if first is None else {"payload": first})
    assert row(paid_before).result is not None
    assert row(timed_out_before).result is None
    assert not JobStep.objects.filter(status="waiting")


def test_a_crash_after_the_resume_keeps_what_the_wait_answered(declare: Declarations) -> None:
    fails = FirstTime()

    def body(run: Run[Ping]) -> Any:
        paid = run.wait_for_event("payment", "paid", schema=dict)
        fails()
        return paid

    queued = start(declare(body, retry=TWICE))
    work()
    publish_event("paid", {"amount": 1})
    publish_event("paid", {"amount": 2})
    work()
    sql("UPDATE x_jobs SET run_at = now()")
    work()

    assert row(queued).result == {"amount": 1}
