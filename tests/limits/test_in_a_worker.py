"""Runs that meet a spent budget: they wait, uncounted, wherever they meet it, and never die of it."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.builders import Declarations, Ping, reloaded, states
from tests.limits.budgets import a_limit, takes, time_passes
from tests.worker.running import cut_waits_short, work
from ultimate_jobs import AsyncRun, Job, RateLimit, Retry, Run
from ultimate_jobs.models import Job as JobRow, JobStep

pytestmark = pytest.mark.django_db(transaction=True)

ONCE = Retry(attempts=1, jitter=False)
QUICK = Retry(attempts=1, jitter=False, max_delay="1s")
MANY = 6


@pytest.fixture
def spent() -> RateLimit:
    """Answer a budget of one an hour, spent."""
    gateway = a_limit(1)
    gateway.take()
    return gateway


def rounds(handle: Job[Ping, Any], count: int = MANY) -> None:
    """Let everything that waits be tried again, so often."""
    for _ in range(count):
        work(handle)
        cut_waits_short()


def the_job() -> JobRow:
    return JobRow.objects.get()


def has_waited_only() -> bool:
    """Answer whether the one job has lost no attempt, and no error was written."""
    found = the_job()
    return (found.state, found.attempt, found.last_error) == ("ready", 0, None)


def test_a_job_with_one_attempt_waits_and_is_done_in_the_end(
    declare: Declarations, spent: RateLimit
) -> None:
    handle = declare(lambda run: spent.take(), retry=QUICK)
    handle.enqueue(Ping("a"))

    rounds(handle)
    assert has_waited_only()
    assert the_job().claim == MANY

    time_passes(3_600)
    work(handle)
    assert (the_job().state, the_job().attempt) == ("done", 1)


def test_max_delay_does_not_shorten_the_wait(declare: Declarations, spent: RateLimit) -> None:
    handle = declare(lambda run: spent.take(), retry=QUICK)
    queued = handle.enqueue(Ping("a"))

    work(handle)

    row = JobRow.objects.get(id=queued.id)
    assert row.run_at - row.created_at > timedelta(minutes=55)


def test_an_async_body_waits_too(declare: Declarations, spent: RateLimit) -> None:
    async def body(run: AsyncRun[Ping]) -> None:
        await spent.atake()

    handle = declare(body, retry=ONCE)  # type: ignore[arg-type]
    handle.enqueue(Ping("a"))

    rounds(handle, 3)
    assert has_waited_only()
    time_passes(3_600)
    work(handle)
    assert the_job().state == "done"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_backlog_waits_in_line_and_none_of_it_dies(declare: Declarations) -> None:
    gateway = a_limit(5)
    handle = declare(lambda run: gateway.take(), retry=ONCE)
    handle.enqueue_many([Ping(f"k{number}") for number in range(20)])

    work(handle)
    waiting = JobRow.objects.filter(state="ready").order_by("run_at")
    due = [row.run_at for row in waiting]
    gaps = [(after - before).total_seconds() for before, after in pairwise(due)]

    assert states() == {"done": 5, "ready": 15}
    assert sum(gaps) / len(gaps) == pytest.approx(3_600 / 5, abs=60)
    for _ in range(8):
        if states() == {"done": 20}:
            break
        time_passes(3_600)
        cut_waits_short()
        work(handle)
    assert states() == {"done": 20}
    assert {row.attempt for row in JobRow.objects.all()} == {1}


def test_a_take_after_a_step_does_not_repeat_the_step(
    declare: Declarations, spent: RateLimit
) -> None:
    done: list[str] = []

    def body(run: Run[Ping]) -> None:
        run.step("first", lambda: done.append("first"))
        spent.take()

    handle = declare(body, retry=ONCE)
    handle.enqueue(Ping("a"))

    rounds(handle)
    time_passes(3_600)
    work(handle)

    assert (the_job().state, done) == ("done", ["first"])


def test_a_take_inside_a_step_uses_up_none_of_its_own_retries(
    declare: Declarations, spent: RateLimit
) -> None:
    def body(run: Run[Ping]) -> None:
        run.step("charge", spent.take, retry=Retry(attempts=2, jitter=False, max_delay="1s"))

    handle = declare(body, retry=ONCE)
    queued = handle.enqueue(Ping("a"))

    rounds(handle)
    assert has_waited_only()
    assert not JobStep.objects.exists()
    work(handle)
    row = JobRow.objects.get(id=queued.id)
    assert row.run_at - row.updated_at > timedelta(minutes=30)

    time_passes(3_600)
    cut_waits_short()
    work(handle)
    assert the_job().state == "done"


def test_a_take_inside_a_transaction_step_waits_and_is_spent_once(declare: Declarations) -> None:
    gateway = a_limit(1)

    def body(run: Run[Ping]) -> None:
        run.atomic("charge", gateway.take)

    handle = declare(body, retry=ONCE)
    handle.enqueue_many([Ping("a"), Ping("b")])

    rounds(handle, 3)

    assert states() == {"done": 1, "ready": 1}


class Sagas:
    """A body that takes first, charges, and fails for good; what undoes the charge takes as well."""

    def __init__(self) -> None:
        self.forward, self.back = a_limit(1), a_limit(1)
        self.world: list[str] = []

    def body(self, run: Run[Ping]) -> None:
        self.forward.take()
        run.step("charge", lambda: self.world.append("charge"), compensate=self.undo)
        raise RuntimeError("no way forward")

    def undo(self, output: object) -> None:
        self.back.take()
        self.world.append("refund")


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_saga_waits_on_its_way_back_and_undoes_everything(
    declare: Declarations, attempts: int
) -> None:
    saga = Sagas()
    takes(saga.back)

    def body(run: Run[Ping]) -> None:
        saga.body(run)

    retry = Retry(attempts=attempts, jitter=False, delay="1ms")
    handle = declare(body, retry=retry, compensates=True)
    handle.enqueue(Ping("a"))
    for _ in range(attempts):
        work(handle)
        cut_waits_short()
        saga.forward = a_limit(1)

    assert saga.world == ["charge"]
    rounds(handle)
    assert (the_job().state, saga.world) == ("ready", ["charge"])

    # The replay takes the forward budget, which is spent by now; then the refund has its turn.
    assert not takes(saga.forward)
    rounds(handle)
    assert the_job().state == "ready"
    time_passes(3_600)
    rounds(handle, 2)
    assert saga.world == ["charge", "refund"]
    assert the_job().state == "dead"
    assert str(the_job().last_error).startswith("RuntimeError: no way forward")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_compensation_waits_as_often_as_it_must(
    declare: Declarations, spent: RateLimit, *, is_async: bool
) -> None:
    world: list[str] = []

    def refund(output: object) -> None:
        spent.take()
        world.append("refund")

    async def arefund(output: object) -> None:
        await spent.atake()
        world.append("refund")

    def body(run: Run[Ping]) -> None:
        run.step("charge", lambda: None, compensate=arefund if is_async else refund)
        raise RuntimeError

    handle = declare(body, retry=ONCE, compensates=True)
    handle.enqueue(Ping("a"))

    rounds(handle)
    assert (the_job().state, the_job().attempt, world) == ("ready", 0, [])
    time_passes(3_600)
    work(handle)
    assert (the_job().state, world) == ("dead", ["refund"])


def test_a_view_takes_without_a_run() -> None:
    gateway = a_limit(1)

    assert [takes(gateway), takes(gateway)] == [True, False]


def test_a_refused_run_that_is_out_of_attempts_is_not_buried(
    declare: Declarations, spent: RateLimit
) -> None:
    handle = declare(lambda run: spent.take(), retry=Retry(attempts=2, delay="1ms", jitter=False))
    handle.enqueue(Ping("a"))
    JobRow.objects.update(attempt=1)

    rounds(handle)

    found = reloaded(the_job())
    assert (found.state, found.attempt) == ("ready", 1)
