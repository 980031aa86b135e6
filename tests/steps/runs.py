"""Runs of throwaway jobs: started, worked off, and read back.

    queued = start(handle)
    work()                          # one worker, until nothing is due
    assert row(queued).state == "done"
    assert trace(queued) == [("charge", "completed")]

A worker of these tests looks again at once where a real one waits a little, on connections of its
own. ``make_due`` ends every wait that the database's clock is to end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.builders import PATIENCE, Ping, second_connection, sql, wait_until
from ultimate_jobs import Enqueued, Job, Retry
from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.states import TERMINAL
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.models import Job as JobRow, JobStep
from ultimate_jobs.worker.loop import Worker

QUICK = timedelta(milliseconds=5)
TWICE = Retry(attempts=2, delay="1ms", jitter=False)
ONCE = Retry(attempts=1)

_keys = itertools.count(1)


def start(handle: Job[Ping, Any], load: Any = None) -> Enqueued:
    """Enqueue a job under a key of its own."""
    return handle.enqueue(Ping(f"run-{next(_keys)}", load=load))


def a_worker_of(concurrency: int = 4, **settings: Any) -> Worker:
    """Build a worker that does not dawdle, and that claims only for bodies that are free.

    What it takes ahead goes by how long bodies took: statements would not be the same each time.
    """
    words = {"poll_interval": QUICK, "idle_poll_max": QUICK, "prefetch": 0, **settings}
    quick = replace(get_settings(), **words)
    return Worker(get_driver(), registry, quick, concurrency=concurrency)


def work(concurrency: int = 4, **settings: Any) -> None:
    """Run everything that is due, as one worker process on connections of its own."""

    def until_idle() -> None:
        relay = Relay(get_driver(), get_settings())
        a_worker_of(concurrency, **settings).run(until_idle=True, feed=relay.drain)

    second_connection(until_idle).result(3 * PATIENCE)


@contextmanager
def working(concurrency: int = 4, **settings: Any) -> Iterator[Worker]:
    """Have a worker at work inside the block."""
    worker = a_worker_of(concurrency, **settings)
    running = second_connection(worker.run)
    try:
        yield worker
    finally:
        worker.stop()
        running.result(3 * PATIENCE)


def finish(*queued: Enqueued | JobRow, rounds: int = 20) -> None:
    """Work, and end every wait, until the jobs have ended."""
    for _ in range(rounds):
        work()
        if all(row(one).state in TERMINAL for one in queued):
            return
        make_due()
    raise AssertionError(f"still {[row(one).state for one in queued]} after {rounds} rounds")


def run_to_the_end(handle: Job[Ping, Any], load: Any = None) -> JobRow:
    """Start a run, let it end, and answer its row."""
    queued = start(handle, load)
    finish(queued)
    return row(queued)


def make_due() -> None:
    """End every retry wait, sleep and lease now."""
    sql("UPDATE x_job_steps SET wake_at = now() WHERE status = 'sleeping'")
    sql("UPDATE x_jobs SET run_at = now() WHERE state IN ('delayed', 'ready', 'suspended')")
    lapse()


def lapse() -> None:
    """Let every claim lapse, as if its worker had died long ago."""
    sql("UPDATE x_jobs SET visible_at = now() WHERE state = 'running'")
    sql("DELETE FROM x_job_workers")


def row(queued: Enqueued | JobRow) -> JobRow:
    """Read a job as it is stored now."""
    return JobRow.objects.get(id=queued.id)


def state(queued: Enqueued | JobRow) -> str:
    """Read the state of a job."""
    return row(queued).state


def wait_for_state(queued: Enqueued | JobRow, *wanted: str) -> None:
    """Wait until a job is in one of the states."""
    wait_until(lambda: state(queued) in wanted, what=f"a job to be {' or '.join(wanted)}")


def step_of(queued: Enqueued | JobRow, name: str) -> JobStep:
    """Read a stored step."""
    return JobStep.objects.get(run_id=queued.run_id, name=name)


def trace(queued: Enqueued | JobRow) -> list[tuple[str, str]]:
    """Read the names and statuses of a run's steps, in the order it reached them."""
    steps = JobStep.objects.filter(run_id=queued.run_id).order_by("position")
    return list(steps.values_list("name", "status"))


class Calls(list[Any]):
    """What was called, in order: ``run.step("a", calls("a"))``."""

    def __call__(self, name: Any, answer: Any = None) -> Callable[[], Any]:
        def called() -> Any:
            self.append(name)
            return answer

        return called


class FirstTime:
    """Raises the first time it is asked, and never again."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error or RuntimeError("the first attempt fails")
        self._asked = False

    def __call__(self) -> None:
        if not self._asked:
            self._asked = True
            raise self._error
