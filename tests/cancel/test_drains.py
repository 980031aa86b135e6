"""A drain: the worker is told to stop, its bodies are told, and no attempt is counted for it."""

from __future__ import annotations

import threading
from datetime import timedelta
from decimal import Decimal

import pytest

from testproject.shop.models import Order
from tests.builders import PATIENCE, Body, Declarations, Ping, wait_until
from tests.steps.runs import (
    ONCE,
    Calls,
    row,
    start,
    state,
    step_of,
    trace,
    wait_for_state,
    work,
    working,
)
from ultimate_jobs import Run, run_to_completion
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.worker.loop import Worker

pytestmark = pytest.mark.django_db(transaction=True)


class Stream:
    """A body of three steps that waits inside the second one for a drain, once."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.inside = threading.Event()
        self.drained = False

    def as_body(self) -> Body:
        def body(run: Run[Ping]) -> str:
            run.step("first", self.calls("first"))
            run.step("second", lambda: self.second(run))
            run.step("third", self.calls("third"))
            return "through"

        return body

    def second(self, run: Run[Ping]) -> str:
        self.calls.append("second")
        self.inside.set()
        if not self.drained:
            self.drained = run.signal.wait(PATIENCE)
        return "finished"

    def drain(self, worker: Worker) -> None:
        assert self.inside.wait(PATIENCE)
        worker.interrupt("SIGTERM")


def test_an_atomic_step_that_finished_meanwhile_commits(declare: Declarations) -> None:
    inside = threading.Event()

    def sell(run: Run[Ping]) -> int:
        order = Order.objects.create(reference="o-1", amount=Decimal(5))
        inside.set()
        run.signal.wait(PATIENCE)
        return int(order.pk)

    def body(run: Run[Ping]) -> object:
        return run.atomic("sell", lambda: sell(run))

    queued = start(declare(body, retry=ONCE))
    with working() as worker:
        assert inside.wait(PATIENCE)
        worker.interrupt("SIGTERM")
    work()

    assert (state(queued), row(queued).result) == ("done", Order.objects.get().pk)
    assert trace(queued) == [("sell", "completed")]


def test_a_step_that_finished_meanwhile_is_recorded_once_and_the_run_resumes_after_it(
    declare: Declarations,
) -> None:
    stream = Stream()
    queued = start(declare(stream.as_body(), retry=ONCE))
    with working() as worker:
        stream.drain(worker)

    assert (state(queued), row(queued).attempt, row(queued).last_error) == ("ready", 0, None)
    assert trace(queued) == [("first", "completed"), ("second", "completed")]
    assert step_of(queued, "second").output == "finished"

    work()
    assert stream.calls == ["first", "second", "third"]
    assert (state(queued), row(queued).attempt) == ("done", 1)


def test_a_step_that_stopped_meanwhile_runs_again_in_full(declare: Declarations) -> None:
    calls = Calls()
    inside = threading.Event()

    def second(run: Run[Ping]) -> None:
        calls.append("second")
        inside.set()
        if len(calls) == 2:
            assert run.signal.wait(PATIENCE)
        run.signal.raise_if_aborted()

    def body(run: Run[Ping]) -> None:
        run.step("first", calls("first"))
        run.step("second", lambda: second(run))

    queued = start(declare(body, retry=ONCE))
    with working() as worker:
        assert inside.wait(PATIENCE)
        worker.interrupt("SIGTERM")

    assert (state(queued), row(queued).attempt) == ("ready", 0)
    assert trace(queued) == [("first", "completed")]
    work()
    assert calls == ["first", "second", "second"]
    assert state(queued) == "done"


def test_a_body_that_raises_its_own_error_because_of_it_is_interrupted_not_failed(
    declare: Declarations,
) -> None:
    inside = threading.Event()
    hurt: list[bool] = []

    def body(run: Run[Ping]) -> None:
        inside.set()
        if not hurt:
            hurt.append(run.signal.wait(PATIENCE))
            raise ConnectionResetError("the stop hurt")

    queued = start(declare(body, retry=ONCE))
    with working() as worker:
        assert inside.wait(PATIENCE)
        worker.interrupt("SIGTERM")

    assert (state(queued), row(queued).attempt, row(queued).last_error) == ("ready", 0, None)
    work()
    assert state(queued) == "done"


def test_a_body_that_finishes_in_spite_of_it_is_done(declare: Declarations) -> None:
    inside = threading.Event()

    def body(run: Run[Ping]) -> str:
        inside.set()
        run.signal.wait(PATIENCE)
        return "finished all the same"

    queued = start(declare(body, retry=ONCE))
    with working() as worker:
        assert inside.wait(PATIENCE)
        worker.interrupt("SIGTERM")

    assert (state(queued), row(queued).result) == ("done", "finished all the same")


def test_work_that_must_land_lands(declare: Declarations) -> None:
    inside = threading.Event()
    other = declare()

    def body(run: Run[Ping]) -> None:
        if inside.is_set():
            return
        inside.set()
        run.signal.wait(PATIENCE)
        with run_to_completion():
            other.enqueue(Ping("must land"))
        run.signal.raise_if_aborted()

    queued = start(declare(body))
    with working() as worker:
        assert inside.wait(PATIENCE)
        worker.interrupt("SIGTERM")

    assert state(queued) == "ready"
    work()
    assert JobRow.objects.get(name=other.name).state == "done"


def test_a_body_that_ignores_it_is_left_behind_and_counted(declare: Declarations) -> None:
    release, inside = threading.Event(), threading.Event()

    def body(run: Run[Ping]) -> None:
        inside.set()
        release.wait(PATIENCE)

    queued = start(declare(body, retry=ONCE))
    with working(drain_timeout=timedelta(milliseconds=100)) as worker:
        assert inside.wait(PATIENCE)
        worker.interrupt("SIGTERM")

    assert (state(queued), row(queued).attempt) == ("running", 1)
    assert worker.stats.abandoned == 1
    release.set()


def test_a_second_signal_hurries(declare: Declarations) -> None:
    release, inside = threading.Event(), threading.Event()

    def body(run: Run[Ping]) -> None:
        inside.set()
        release.wait(PATIENCE)

    start(declare(body))
    with working(drain_timeout=timedelta(hours=1)) as worker:
        assert inside.wait(PATIENCE)
        worker.interrupt("SIGTERM")
        worker.hurry()

    assert worker.stats.abandoned == 1
    release.set()


def test_stopping_by_hand_disturbs_nothing(declare: Declarations) -> None:
    inside, release, aborted = threading.Event(), threading.Event(), Calls()

    def body(run: Run[Ping]) -> None:
        inside.set()
        assert release.wait(PATIENCE)
        aborted.append(run.signal.aborted)

    queued = start(declare(body, retry=ONCE))
    with working() as worker:
        assert inside.wait(PATIENCE)
        worker.stop()
        wait_until(lambda: worker.stats.state == "draining")
        release.set()

    assert aborted == [False]
    assert state(queued) == "done"


def test_a_sleeping_run_does_not_notice_it(declare: Declarations) -> None:
    queued = start(declare(lambda run: run.sleep("3d")))
    with working() as worker:
        wait_for_state(queued, "suspended")
        worker.interrupt("SIGTERM")

    assert (state(queued), row(queued).attempt) == ("suspended", 0)


def test_drains_at_random_moments_lose_nothing_and_finish_nothing_twice(
    declare: Declarations,
) -> None:
    through: list[str] = []
    lock = threading.Lock()

    def body(run: Run[Ping]) -> None:
        run.step("work", lambda: run.signal.wait(0.005))
        run.signal.raise_if_aborted()
        with lock:
            through.append(run.input.key)

    handle = declare(body, retry=ONCE)
    queued = [start(handle) for _ in range(60)]
    pause = threading.Event()
    for number in range(20):
        with working(concurrency=4) as worker:
            pause.wait(0.005 * (number % 5))
            worker.interrupt("SIGTERM")
    work()

    wait_until(lambda: all(state(one) == "done" for one in queued))
    assert len(through) == len(set(through)) == 60
    assert {row(one).attempt for one in queued} == {1}
