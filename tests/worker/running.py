"""Worker processes inside the test process: to the end of the work, or on duty beside the test.

work(ping)                                  # one worker, until nothing is due
work_out(ping)                              # the same, with the waits of retries cut short

with on_duty(ping, concurrency=4) as duty:
    gate.arrived()                          # a body has come to the gate and waits there
    duty.worker.interrupt("SIGTERM")
    gate.open()
    assert duty.ended().abandoned == 0
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Sized
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import connections  # noqa: TID251 - to count what a worker's own thread runs
from django.db.models.functions import Now

from tests.builders import PATIENCE, live, second_connection, wait_until
from ultimate_jobs import Job
from ultimate_jobs.conf import Settings
from ultimate_jobs.core.prefetch import Prefetch
from ultimate_jobs.core.states import WAITING
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.worker.loop import Worker
from ultimate_jobs.worker.stats import WorkerStats

MANY_ROUNDS = 20


def milliseconds(count: float) -> timedelta:
    return timedelta(milliseconds=count)


def quick(**changes: Any) -> Settings:
    """Settings of a worker that looks often, and takes no run ahead by what it learns.

    Everything else is as it is by default.
    """
    words: dict[str, Any] = {
        "poll_interval": milliseconds(10),
        "idle_poll_max": milliseconds(40),
        "drain_timeout": timedelta(seconds=PATIENCE),
        "prefetch": 0,
        **changes,
    }
    return Settings(**words)


def a_worker_process(
    *handles: Job[Any, Any],
    concurrency: int = 2,
    queues: Sequence[str] = ("default",),
    name: str | None = None,
    ahead: int | None = None,
    **settings: Any,
) -> Worker:
    """Build a worker that knows ``handles`` and nothing else.

    ``ahead`` says how many runs it takes before it has a body for them, whatever it learns.
    """
    known = Registry()
    for handle in handles:
        known.add(handle)
    worker = Worker(
        get_driver(), known, quick(**settings), queues=queues, concurrency=concurrency, name=name
    )
    if ahead is not None:
        worker._bodies.prefetch = Eager(ahead)
    return worker


class Eager(Prefetch):
    """Takes runs ahead as of bodies that are tiny, and learns nothing."""

    def __init__(self, ahead: int) -> None:
        super().__init__(bodies=1, most=ahead)
        self.ahead, self.tiny = ahead, True

    def ended(self, seconds: Sequence[float]) -> None:
        pass

    def claimed(self, asked: int, got: int) -> None:
        pass

    def stuck(self) -> None:
        self.ahead = 0


def work(*handles: Job[Any, Any], **options: Any) -> WorkerStats:
    """Run everything that is due, on this thread; answer what was done."""
    worker = a_worker_process(*handles, **options)
    worker.run(until_idle=True)
    return worker.stats


def work_out(*handles: Job[Any, Any], **options: Any) -> None:
    """Run everything, and whatever is tried again, until no live job is left."""
    for _ in range(MANY_ROUNDS):
        work(*handles, **options)
        if not any(live(handle.name) for handle in handles):
            return
        cut_waits_short()
    raise AssertionError("the work never ends")


def cut_waits_short() -> None:
    """Let everything that waits be due."""
    JobRow.objects.filter(state__in=WAITING).update(run_at=Now())


class Duty:
    """A worker that runs beside the test."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.statements: list[Statement] = []
        self._run: Future[None] = second_connection(self._watched)

    def ended(self, seconds: float = 2 * PATIENCE) -> WorkerStats:
        """Wait until the worker has ended; answer what it did."""
        self._run.result(seconds)
        return self.worker.stats

    def _watched(self) -> None:
        with recorded(self.statements):
            self.worker.run()


@contextmanager
def on_duty(*handles: Job[Any, Any], **options: Any) -> Iterator[Duty]:
    """Let a worker run inside the block; at the end it is told to stop, and waited for."""
    duty = Duty(a_worker_process(*handles, **options))
    try:
        yield duty
    except BaseException:
        duty.worker.interrupt("SIGTERM")
        duty.worker.hurry()
        raise
    duty.worker.stop()
    duty.ended()


def queries_logged() -> int:
    """Count what Django has kept of this thread's queries."""
    return len(connections["default"].queries_log)


# What a worker says and does

Statement = tuple[float, str]
"""When a statement began, on the monotonic clock, and its text."""


@contextmanager
def recorded(statements: list[Statement]) -> Iterator[None]:
    """Note every statement of this thread inside the block."""

    def note(execute: Callable[..., Any], text: str, *rest: Any) -> Any:
        statements.append((time.monotonic(), str(text)))
        return execute(text, *rest)

    with connections["default"].execute_wrapper(note):
        yield


class Events(logging.Handler):
    """The events that were logged, in order."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)

    def named(self, name: str) -> list[dict[str, Any]]:
        """Answer the fields of every event of a name."""
        return [_fields(record) for record in self._records if _name(record) == name]

    def names(self) -> list[str]:
        return [_name(record) for record in self._records]

    def lines(self) -> str:
        """Answer everything as it would stand in a log file."""
        return "\n".join(record.getMessage() for record in self._records)

    def wait_for(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until an event was logged ``count`` times."""
        wait_until(lambda: len(self.named(name)) >= count, what=f"the event {name}")
        return self.named(name)


def _name(record: logging.LogRecord) -> str:
    return str(getattr(record, "event", ""))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return dict(getattr(record, "fields", {}))


# Bodies that wait


class Gate:
    """A place where bodies stand until the test lets them go on."""

    def __init__(self) -> None:
        self._arrivals = threading.Semaphore(0)
        self._opened = threading.Event()

    def hold(self) -> None:
        """Come to the gate and wait there. Bodies."""
        self._arrivals.release()
        assert self._opened.wait(3 * PATIENCE), "nobody opened the gate"

    def arrived(self, count: int = 1) -> None:
        """Wait until ``count`` more bodies have come."""
        for _ in range(count):
            assert self._arrivals.acquire(timeout=PATIENCE), "nobody came to the gate"

    def open(self) -> None:
        """Let everybody go on, those who come later included."""
        self._opened.set()


def at_least(count: int, items: Sized) -> Callable[[], bool]:
    """A condition to wait for."""
    return lambda: len(items) >= count


def body_threads() -> list[str]:
    """Name the threads of bodies that have not ended."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("ultimate_jobs-body")]
