"""What every test of the suite has at hand: a clock, a caller, workers, other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeVar
from uuid import UUID

import pytest

from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import (
    Batch,
    ClaimedJob,
    ClaimRequest,
    Claims,
    Enqueued,
    Fence,
    HeldClaim,
    Lost,
    NewJob,
    ParkedStep,
    Presence,
    RelayPass,
    Settlement,
    Settling,
    Slot,
    StepWrite,
    Tally,
)
from ultimate_jobs.core.replay import StepRecord, StepStatus
from ultimate_jobs.core.selection import Look, Selection
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import Driver, Part

T = TypeVar("T")

JOB = "conformance.job"
QUEUE = "default"
WORKER = "worker-1"
OTHER_WORKER = "worker-2"

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LEASE = MINUTE

PATIENCE = 60.0
"""Seconds that a test waits for what must happen; only a failure takes that long."""

A_MOMENT = 0.05
"""Seconds in which what does not wait for anybody has usually answered."""

_TALLIES = {
    JobState.DONE: Tally(done=1),
    JobState.READY: Tally(retried=1),
    JobState.FAILED: Tally(failed=1),
    JobState.DEAD: Tally(dead=1),
}


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self._now = datetime(2031, 2, 3, 12, 0, 30, 250_000, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Answer the instant."""
        return self._now

    def advance(self, span: timedelta) -> None:
        """Move on."""
        self._now += span


class UndoError(Exception):
    """Undoes the transaction around it."""


class Scene:
    """A driver, and those who use it. What is left out of a call is the same in every test."""

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self.driver = driver
        self.clock = clock

    # Callers

    def batch(
        self, *keys: str, text: str = "{}", lease_key: str | None = None, **options: Any
    ) -> Batch:
        """Build a batch of one job for each key; ``text`` is the input of all of them."""
        jobs = [NewJob(new_id(), new_id(), key, text, lease_key) for key in keys]
        words: dict[str, Any] = {"name": JOB, "queue": QUEUE, "max_attempts": 3, **options}
        return Batch(jobs=jobs, **words)

    def enqueue(self, *keys: str, **options: Any) -> list[Enqueued]:
        """Publish a job for each key."""
        return self.driver.queue.enqueue(self.batch(*keys, **options))

    def stage(self, *keys: str, **options: Any) -> list[Enqueued]:
        """Stage a job for each key."""
        return self.driver.outbox.stage(self.batch(*keys, **options))

    def relay(self, limit: int = 100) -> RelayPass:
        """Move what is staged."""
        return self.driver.outbox.relay(limit)

    def holds_its_key(self, key: str, **options: Any) -> bool:
        """Answer whether a live job holds a key, by asking for another; if none does, there is one now."""
        (answer,) = self.enqueue(key, **options)
        return answer.deduped

    # Workers

    def claim(  # noqa: PLR0913 - what a claim may differ in
        self,
        *names: str,
        worker: str = WORKER,
        queues: Sequence[str] = (QUEUE,),
        room: int = 100,
        share: int | None = None,
        lease: timedelta = LEASE,
        reap: bool = True,
        undead: Sequence[str] = (),
        ahead: int = 0,
        waitable: Sequence[str] = (),
    ) -> Claims:
        """Claim as a worker that knows ``names``."""
        request = ClaimRequest(
            worker=worker,
            queues=queues,
            names=names or (JOB,),
            room=room,
            shares=[room + ahead if share is None else share for _ in queues],
            lease=lease,
            reap=reap,
            undead=undead,
            ahead=ahead,
            waitable=waitable,
        )
        return self.driver.queue.claim(request)

    def claimed(self, **options: Any) -> list[UUID]:
        """Claim, and answer the ids."""
        return [job.id for job in self.claim(**options).jobs]

    def take(self, **options: Any) -> ClaimedJob:
        """Claim the one job that there is to claim."""
        (job,) = self.claim(**options).jobs
        return job

    def running(self, key: str = "a", *, worker: str = WORKER, **options: Any) -> ClaimedJob:
        """Enqueue a job and claim it."""
        (asked,) = self.enqueue(key, **options)
        name, queue = options.get("name", JOB), options.get("queue", QUEUE)
        jobs = self.claim(name, worker=worker, queues=(queue,)).jobs
        return next(job for job in jobs if job.id == asked.id)

    def ending(
        self,
        job: ClaimedJob,
        state: JobState = JobState.DONE,
        *,
        claim: int | None = None,
        slot: Slot | None = None,
        progress: str | None = None,
        **settlement: Any,
    ) -> Settling:
        """Build an ending of a claim."""
        words: dict[str, Any] = {"tally": _TALLIES.get(state, Tally()), **settlement}
        return Settling(
            id=job.id,
            claim=job.claim if claim is None else claim,
            settlement=Settlement(state=state, **words),
            seconds=0.5,
            progress=progress,
            slot=slot,
        )

    def settle(
        self,
        job: ClaimedJob,
        state: JobState = JobState.DONE,
        *,
        worker: str = WORKER,
        **ending: Any,
    ) -> bool:
        """Write an ending; answer whether the claim stood."""
        return bool(self.driver.queue.settle(worker, [self.ending(job, state, **ending)]))

    def ended(self, state: JobState, key: str = "a", **options: Any) -> UUID:
        """Bring a job to an end, or to a suspension."""
        job = self.running(key, **options)
        self.settle(job, state)
        return job.id

    def sleep(
        self, job: ClaimedJob, span: timedelta, name: str = "nap", *, worker: str = WORKER
    ) -> bool:
        """Suspend a run at a step that sleeps."""
        return self._park(
            job, worker, span, None, ParkedStep(name=name, position=9, status=StepStatus.SLEEPING)
        )

    def wait_for(
        self,
        job: ClaimedJob,
        event: str,
        *,
        match: str | None = None,
        timeout: timedelta = DAY,
        name: str = "wait",
        worker: str = WORKER,
    ) -> bool:
        """Suspend a run at a step that waits for an event, and looks again each minute."""
        step = ParkedStep(
            name=name, position=9, status=StepStatus.WAITING, event=event, match=match
        )
        return self._park(job, worker, timeout, MINUTE, step)

    def _park(
        self,
        job: ClaimedJob,
        worker: str,
        span: timedelta,
        poll: timedelta | None,
        step: ParkedStep,
    ) -> bool:
        return self.settle(
            job, JobState.SUSPENDED, worker=worker, counted=False, wait=span, poll=poll, parked=step
        )

    def beat(
        self,
        *held: HeldClaim,
        worker: str = WORKER,
        lease: timedelta = LEASE,
        queues: Sequence[str] = (QUEUE,),
        jobs: Sequence[str] = (JOB,),
    ) -> list[Lost]:
        """Give a sign of life."""
        presence = Presence(
            worker=worker,
            host="conformance",
            pid=1,
            queues=queues,
            jobs=jobs,
            concurrency=8,
            state="running",
        )
        return self.driver.queue.heartbeat(presence, held, lease)

    def lapse(self) -> None:
        """Let every lease run out."""
        self.clock.advance(LEASE + SECOND)

    # Runs

    def fence(self, job: ClaimedJob, *, claim: int | None = None, worker: str = WORKER) -> Fence:
        """Name a claim as a run does."""
        claim = job.claim if claim is None else claim
        return Fence(job_id=job.id, run_id=job.run_id, claim=claim, worker=worker)

    def put(
        self,
        job: ClaimedJob | Fence,
        name: str = "charge",
        status: StepStatus = StepStatus.COMPLETED,
        *,
        position: int = 0,
        output: str | None = "1",
        **words: Any,
    ) -> str | None:
        """Write a step."""
        fence = job if isinstance(job, Fence) else self.fence(job)
        step = StepWrite(name=name, position=position, status=status, output=output, **words)
        return self.driver.steps.put(fence, step)

    def steps(self, job: ClaimedJob, *, worker: str = WORKER) -> dict[str, StepRecord]:
        """Read the steps of a run, in their order."""
        records, _ = self.driver.steps.load(self.fence(job, worker=worker))
        return {record.name: record for record in records}

    # Operators

    def state(self, job: UUID) -> JobState | None:
        """Answer where a job stands; ``None``: there is none."""
        look = Look(source="ids", limit=1, window=1)
        for state in JobState:
            if self.driver.operator.choose(Selection(ids=(job,), states=(state,)), look).places:
                return state
        return None

    # Other threads

    def elsewhere(self, work: Callable[[], T]) -> Future[T]:
        """Run work on a thread of its own, whose connections are closed afterwards."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                found = work()
            except BaseException as error:  # noqa: BLE001 - the test meets it at result()
                self.driver.close()
                answer.set_exception(error)
            else:
                self.driver.close()
                answer.set_result(found)

        threading.Thread(target=run, name="conformance", daemon=True).start()
        return answer

    def at_once(self, *works: Callable[[], T]) -> list[T]:
        """Run every work on a thread of its own, all released at one moment; answer in order."""
        gate = threading.Barrier(len(works))

        def released(work: Callable[[], T]) -> Callable[[], T]:
            def run() -> T:
                gate.wait(PATIENCE)
                return work()

            return run

        running = [self.elsewhere(released(work)) for work in works]
        return [one.result(PATIENCE) for one in running]

    def answers_in_a_moment(self, work: Future[Any]) -> bool:
        """Answer whether work ends within a moment, as what waits for nobody does."""
        return bool(wait([work], A_MOMENT).done)

    @contextmanager
    def held_open(self, work: Callable[[], T], *, undone: bool = False) -> Iterator[T]:
        """Do work in a transaction of another thread that stays open for the block."""
        done: Future[T] = Future()
        end = threading.Event()

        def transaction() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)
                raise
            end.wait(PATIENCE)
            if undone:
                raise UndoError

        def run() -> None:
            with suppress(UndoError):
                self.driver.steps.transact(transaction)

        other = self.elsewhere(run)
        try:
            yield done.result(PATIENCE)
        finally:
            end.set()
            other.result(PATIENCE)

    def undo(self, work: Callable[[], T]) -> T:
        """Do work in a transaction that is undone."""
        found: list[T] = []

        def transaction() -> None:
            found.append(work())
            raise UndoError

        with suppress(UndoError):
            self.driver.steps.transact(transaction)
        return found[0]


class Suite:
    """The tests of one part. Where a driver declares that it lacks the part, they are skipped."""

    needs: ClassVar[Collection[Part]] = ()

    def __init_subclass__(cls, *, needs: Collection[Part] = (), **words: Any) -> None:
        super().__init_subclass__(**words)
        cls.needs = (*cls.needs, *needs)

    @pytest.fixture(autouse=True)
    def _declared(self, driver: Driver) -> None:
        lacks = [part.value for part in self.needs if part in driver.absent]
        if lacks:
            pytest.skip(f"the driver '{driver.name}' declares that it lacks: {', '.join(lacks)}")

    @pytest.fixture
    def scene(self, driver: Driver, clock: Clock) -> Scene:
        """Set the scene."""
        return Scene(driver, clock)
