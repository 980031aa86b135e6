"""Jobs through real relays and workers, in memory: no database is there, and none is asked."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from tests.builders import PATIENCE, Declarations, Ping, UndoError, wait_until
from tests.sagas.orders import Saga
from tests.steps.runs import Calls, FirstTime, start, work, working
from ultimate_jobs import Enqueued, Retry, Run, publish_event
from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.records import Topic
from ultimate_jobs.drivers.base import Part
from ultimate_jobs.drivers.handler import set_driver
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.memory.rows import JobRow
from ultimate_jobs.process.wake import Subscriber, listening
from ultimate_jobs.testing.conformance import Clock

HOUR = timedelta(hours=1)
HOURLY = Retry(attempts=2, delay="1h", jitter=False)


@pytest.fixture
def driver(clock: Clock) -> Iterator[MemoryDriver]:
    """Install a driver that needs no database."""
    driver = MemoryDriver(None, clock=clock)
    set_driver(driver)
    yield driver
    set_driver(None)


def stored(driver: MemoryDriver, queued: Enqueued) -> JobRow:
    """Read a job as it is stored now."""
    return driver.store.tables.jobs.rows[queued.id]


def trace(driver: MemoryDriver, queued: Enqueued) -> list[tuple[str, str]]:
    """Read the names and statuses of a run's steps, in the order it reached them."""
    steps = driver.store.tables.steps.rows.values()
    ours = sorted((s for s in steps if s.run_id == queued.run_id), key=lambda s: s.position)
    return [(step.name, step.status) for step in ours]


def test_a_job_runs_and_its_result_is_stored(driver: MemoryDriver, declare: Declarations) -> None:
    queued = start(declare(lambda run: {"seen": run.input.load}), load=[1, 2.5, "ä"])

    work()

    job = stored(driver, queued)
    assert (job.state, job.attempt, job.result) == ("done", 1, '{"seen": [1, 2.5, "ä"]}')


def test_whoever_enqueued_a_job_may_wait_for_its_result(
    driver: MemoryDriver, declare: Declarations
) -> None:
    queued = start(declare(lambda run: {"n": 1}))

    with working():
        assert queued.result(timeout=PATIENCE) == {"n": 1}


def test_a_job_that_is_enqueued_in_a_transaction_runs_once_that_commits(
    driver: MemoryDriver, declare: Declarations
) -> None:
    ran = Calls()
    handle = declare(lambda run: ran(run.input.key)())

    with driver.atomic():
        handle.enqueue(Ping("kept"))
        work()
        assert ran == []
    with suppress(UndoError), driver.atomic():
        handle.enqueue(Ping("undone"))
        raise UndoError
    work()

    assert ran == ["kept"]


def test_a_body_that_fails_is_tried_again_and_then_dead(
    driver: MemoryDriver, declare: Declarations, clock: Clock
) -> None:
    def body(run: Run[Ping]) -> None:
        raise ValueError(f"attempt {run.attempt}")

    queued = start(declare(body, retry=HOURLY))

    work()
    assert (stored(driver, queued).state, stored(driver, queued).attempt) == ("ready", 1)
    clock.advance(HOUR)
    work()

    job = stored(driver, queued)
    assert (job.state, job.attempt) == ("dead", 2)
    assert "attempt 2" in (job.last_error or "")


def test_a_step_that_is_stored_is_not_called_again(
    driver: MemoryDriver, declare: Declarations, clock: Clock
) -> None:
    called, fails = Calls(), FirstTime()

    def body(run: Run[Ping]) -> object:
        charge = run.step("charge", called("charge", {"id": 7}))
        fails()
        return charge

    queued = start(declare(body, retry=HOURLY))
    work()
    clock.advance(HOUR)
    work()

    assert called == ["charge"]
    assert stored(driver, queued).result == '{"id": 7}'


def test_a_transaction_of_a_body_is_committed_with_its_step_or_not_at_all(
    driver: MemoryDriver, declare: Declarations, clock: Clock
) -> None:
    fails = FirstTime()
    other = declare(name="tests.other")

    def reserve() -> None:
        other.enqueue(Ping("ordered"))
        fails()

    queued = start(declare(lambda run: run.atomic("reserve", reserve), retry=HOURLY))
    work()
    assert trace(driver, queued) == [("reserve", "failed")]
    assert len(driver.store.tables.outbox.rows) == 0
    clock.advance(HOUR)
    work()

    assert trace(driver, queued) == [("reserve", "completed")]
    assert [job.state for job in driver.store.tables.jobs.rows.values()] == ["done", "done"]


def test_a_run_sleeps_waits_and_goes_on(
    driver: MemoryDriver, declare: Declarations, clock: Clock
) -> None:
    def body(run: Run[Ping]) -> object:
        run.sleep("3d")
        return run.wait_for_event(
            "paid", "order.paid", schema=dict[str, int], match=run.input.key, timeout="1d"
        )

    queued = declare(body).enqueue(Ping("o-1"))
    work()
    assert stored(driver, queued).state == "suspended"
    clock.advance(timedelta(days=3))
    work()
    assert publish_event("order.paid", {"amount": 7}, correlation_key="o-1") == 1
    work()

    assert stored(driver, queued).state == "done"
    assert "7" in (stored(driver, queued).result or "")


def test_a_run_that_failed_for_good_is_undone(driver: MemoryDriver, declare: Declarations) -> None:
    saga = Saga()
    saga.broken.add("ship")

    def body(run: Run[Ping]) -> object:
        return saga.body(run)

    queued = start(declare(body, retry=Retry(attempts=1), compensates=True))
    work()

    assert saga.world == ["charge", "reserve", "ship", "release", "refund"]
    assert stored(driver, queued).state == "dead"


def test_workers_that_share_a_capped_job_run_each_once_and_never_too_many(
    driver: MemoryDriver, declare: Declarations
) -> None:
    inside, most, ran = Counter[str](), Counter[str](), Calls()

    def body(run: Run[Ping]) -> None:
        inside["now"] += 1
        most["seen"] = max(most["seen"], inside["now"])
        ran(run.input.key)()
        inside["now"] -= 1

    handle = declare(body, concurrency=1)
    handle.enqueue_many([Ping(str(number)) for number in range(12)])
    with working(), working():
        wait_until(lambda: len(ran) == 12)
        wait_until(lambda: not driver.store.tables.leases.rows)

    assert sorted(ran) == sorted(str(number) for number in range(12))
    assert most["seen"] == 1


def test_a_process_over_a_driver_without_a_wake_does_not_listen(driver: MemoryDriver) -> None:
    subscriber = Subscriber(Topic.JOBS, lambda queue: None, lambda live: None)
    driver.absent = frozenset({Part.WAKE})

    with listening(driver, get_settings(), subscriber):
        assert driver.store.listeners == []
        assert not any("wake" in thread.name for thread in threading.enumerate())
