"""What a test calls."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeVar, Unpack, overload
from unittest.mock import patch
from uuid import UUID

from django.db import transaction

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.durations import Duration
from ultimate_jobs.core.records import Enqueued
from ultimate_jobs.core.states import JobState
from ultimate_jobs.definitions.job import Job
from ultimate_jobs.definitions.registry import tasks as declared_tasks
from ultimate_jobs.definitions.task import Task
from ultimate_jobs.drivers.base import Joined
from ultimate_jobs.drivers.handler import joined_driver, using_driver
from ultimate_jobs.enqueue.options import EnqueueOptions
from ultimate_jobs.errors import InvariantError, JobsNeverIdle
from ultimate_jobs.steps.events import publish_event
from ultimate_jobs.testing import rows
from ultimate_jobs.testing.clock import Clock
from ultimate_jobs.testing.loops import Loops
from ultimate_jobs.testing.rounds import MOST_ROUNDS, Rounds
from ultimate_jobs.testing.rows import EnqueuedJob
from ultimate_jobs.testing.stubs import EventStub, Stub
from ultimate_jobs.testing.timetable import Timetable
from ultimate_jobs.testing.trace import Trace
from ultimate_jobs.testing.watch import Watch

I = TypeVar("I")

Failures = Literal["raise", "keep"]
"""What becomes of a body's failure: the test gets it, or only the job's row."""


@contextmanager
def jobs_kit(test_file: str | None = None) -> Iterator[JobsKit]:
    """Let jobs run inside the block as a test wants it.

    Args:
        test_file: the file of the test; loops in it that enqueue are not warned of.

    """
    with ExitStack() as stack:
        clock, loops = Clock(), Loops(test_file)
        stack.enter_context(clock.in_place())
        stack.callback(loops.forget)
        driver = joined_driver(clock.now, loops.note)
        stack.enter_context(using_driver(driver))
        yield JobsKit(driver, clock, stack)


class JobsKit:
    """Jobs inside a test: on its connection, in its transaction, by a clock that it moves.

    The fixture ``jobs`` and ``JobsMixin`` make one for each test.

    Args:
        driver: where the rows live.
        clock: the time.
        stack: what is undone after the test.

    """

    def __init__(self, driver: Joined, clock: Clock, stack: ExitStack) -> None:
        self.clock = clock
        """The time of Python and PostgreSQL, as far as this package and Django ask for it."""
        self._driver = driver
        self._stack = stack
        self._watch = Watch()
        self._rounds = Rounds(driver, clock, self._watch)
        self._timetable = Timetable(driver.schedule, clock, driver.session)
        self._events: dict[str, EventStub] = {}
        self._works = False

    # Run

    @overload
    def run_jobs(
        self, *, failures: Failures = ..., queues: Iterable[str] | None = ...
    ) -> list[Trace]: ...

    @overload
    def run_jobs(
        self,
        job: Job[I, Any],
        input: I,
        *,
        failures: Failures = ...,
        queues: Iterable[str] | None = ...,
        **options: Unpack[EnqueueOptions],
    ) -> Trace: ...

    def run_jobs(
        self,
        job: Job[Any, Any] | None = None,
        input: Any = None,  # noqa: A002
        *,
        failures: Failures = "raise",
        queues: Iterable[str] | None = None,
        **options: Any,
    ) -> list[Trace] | Trace:
        """Enqueue an input, if one is given, and relay and run everything that is due.

        Args:
            job: the job to enqueue.
            input: its input.
            failures: ``"raise"`` raises the first failure of an attempt once everything that was
                due has run, also one that is to be retried; ``"keep"`` leaves it to the trace.
            queues: the queues to serve; every one by default.
            options: those of ``enqueue``.

        Returns:
            The trace of the job that was enqueued; without one, of every job that ran, in the
            order of their starts.

        Raises:
            JobsNeverIdle: work still comes due after 100 rounds.
            RunFailed: a run failed without an exception of its body.
            Exception: what a body raised, with its traceback.

        """
        queued = None
        if job is not None:
            with transaction.atomic(using=get_settings().database):
                queued = job.enqueue(input, **options)
        ran = self.drain(failures=failures, queues=queues)
        return ran if queued is None else self.trace(queued)

    def drain(
        self, *, failures: Failures = "raise", queues: Iterable[str] | None = None
    ) -> list[Trace]:
        """Relay and run everything that is due; ``run_jobs`` says what the arguments mean."""
        if self._works:
            raise InvariantError("A body drains the queue that it runs from.")
        self._works = True
        try:
            with self._driver.session():
                ran = self._rounds.drain(queues, self._answer_waits)
        finally:
            self._works = False
            failed, self._watch.failures = self._watch.failures, []
        if failed and failures == "raise":
            for other in failed[1:]:
                failed[0].add_note(f"Another job failed: {type(other).__name__}: {other}")
            raise failed[0]
        return [Trace(job, self._watch) for job in ran]

    def run_to_end(self, *, failures: Failures = "raise") -> list[Trace]:
        """Run, and move the clock to whatever is due next, until every declared job has ended.

        Sleeps and backoffs end; waits end by their event stub or their timeout. Answers the traces
        of the jobs that ran.

        Raises:
            JobsNeverIdle: jobs are left after 100 moves of the clock.
            RunFailed, Exception: as ``run_jobs``.

        """
        ran: dict[UUID, Trace] = {}
        for _ in range(MOST_ROUNDS):
            ran |= {trace.id: trace for trace in self.drain(failures=failures)}
            due = rows.next_due(self.clock.now())
            if due is None:
                return list(ran.values())
            self.clock.advance(due - self.clock.now())
        raise JobsNeverIdle(f"After {MOST_ROUNDS} moves of the clock jobs are left.")

    # Look

    def trace(self, job: Enqueued | UUID) -> Trace:
        """Answer what becomes of a job; it can be asked again and again."""
        return Trace(job.id if isinstance(job, Enqueued) else job, self._watch)

    @overload
    def enqueued(self, job: Job[I, Any]) -> list[EnqueuedJob[I]]: ...

    @overload
    def enqueued(self, job: None = None) -> list[EnqueuedJob[Any]]: ...

    def enqueued(self, job: Job[Any, Any] | None = None) -> list[EnqueuedJob[Any]]:
        """Answer the jobs that were enqueued and have not ended, staged ones among them.

        They come in the order of their enqueues, with input and options.

        Args:
            job: only those of one job.

        """
        return rows.enqueued_jobs(None if job is None else job.name)

    def due(self) -> int:
        """Count the jobs that a worker would start now."""
        return rows.due(self.clock.now())

    def in_flight(self) -> int:
        """Count the jobs that run, for a body or a stub that asks."""
        return rows.live_jobs().filter(state=JobState.RUNNING).count()

    def depth(self) -> int:
        """Count the jobs that have not ended: staged, due or later, asleep, running."""
        return rows.live_jobs().count() + rows.staged_rows().count()

    # Play the rest of the world

    def publish(self, event: str, payload: object, *, key: str | None = None) -> int:
        """Publish an event as its own transaction would; answer how many runs it made due."""
        return publish_event(event, payload, correlation_key=key)

    def stub_event(self, event: str, payload: object | Callable[[str | None], object]) -> EventStub:
        """Answer every wait for an event from now on, as soon as nothing else is due.

        Args:
            event: its name.
            payload: what it says; or a function of the correlation key that a wait names, which
                answers ``None`` to let that one wait.

        """
        stub = self._events[event] = EventStub(event, payload)
        return stub

    def stub(
        self,
        path: str,
        answer: object = None,
        *,
        answers: Iterable[object] = (),
        takes: Duration | None = None,
    ) -> Stub:
        """Put a stand-in where the project calls the world outside, until the test ends.

        Args:
            path: where it is looked up: ``"shop.jobs.gateway.charge"``. What stands for an
                ``async def`` is awaited.
            answer: what it answers; called with the arguments when it is callable, raised when it
                is an exception.
            answers: what it answers instead at its first calls, one each.
            takes: how long a call takes: the clock moves on by that.

        """
        stub = Stub(path, self.clock, answer=answer, answers=answers, takes=takes)
        is_async = inspect.iscoroutinefunction(pkgutil.resolve_name(path))
        self._stack.enter_context(patch(path, stub.awaited if is_async else stub))
        return stub

    def schedule(self, *tasks: Task) -> None:
        """Let tasks fire from now on, each when the clock passes an occurrence.

        A fire enqueues; ``run_jobs`` runs it. An exception of a task's function is raised by the
        move of the clock.

        Args:
            tasks: the tasks; every declared one by default.

        """
        self._timetable.arm(tasks or declared_tasks)

    def _answer_waits(self) -> int:
        answered = 0
        for wait in rows.waits_for(self._events) if self._events else ():
            stub = self._events[str(wait.event)]
            payload = stub.payload_for(wait.match)
            if payload is not None:
                publish_event(stub.event, payload, correlation_key=wait.match)
                stub.answered.append((wait.match, payload))
                answered += 1
        return answered
