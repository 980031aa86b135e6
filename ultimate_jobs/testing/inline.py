"""A worker process that lives on the calling thread, one move at a time.

Its claims, runs and settles are those of real workers. What is missing is what would move by
itself: threads, timers, and the time.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from asgiref.sync import async_to_sync

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.records import BuriedJob, ClaimedJob, ClaimRequest, HeldClaim, Presence
from ultimate_jobs.core.settlement import Outcome
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import Draining, LeaseLost, SlotLost
from ultimate_jobs.process.cancel import CancelToken
from ultimate_jobs.testing.clock import Clock
from ultimate_jobs.testing.watch import Watch
from ultimate_jobs.worker.admission import Admission
from ultimate_jobs.worker.ceilings import Ceilings
from ultimate_jobs.worker.execute import attempt
from ultimate_jobs.worker.held import Held
from ultimate_jobs.worker.hooks import Hook, hook_after, hook_after_burial, report_failure, run_hook
from ultimate_jobs.worker.loops import until_aborted
from ultimate_jobs.worker.settle import Fate, Settler
from ultimate_jobs.worker.threads import BodyThreads

T = TypeVar("T")

WORKER = "test"
"""What a worker is called in rows, unless it has a name of its own."""

CLAIM_LIMIT = 64
"""Jobs that one claim takes."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a claim found: every job that it met, and the claims that are to run."""

    jobs: Sequence[ClaimedJob | BuriedJob]
    to_run: Sequence[Held]


class InlineWorker:
    """One worker process. Each of its methods is one move.

    It knows the jobs that are declared when it is made, and the settings of that moment.

    Args:
        driver: where the rows live.
        clock: the time; what runs past a ceiling is stopped when the clock is moved there.
        watch: told what runs do.
        name: what it is called in rows.

    """

    def __init__(self, driver: Driver, clock: Clock, watch: Watch, name: str = WORKER) -> None:
        self.name = name
        self._driver = driver
        self._lease = get_settings().visibility_timeout
        self._clock = clock
        self._watch = watch
        self._held: dict[HeldClaim, Held] = {}
        self._settler = Settler(driver.queue, name, random.Random(0))  # noqa: S311 - jitter
        self._admission = Admission(driver, registry, get_settings(), name)
        self._specs = {job.name: job.spec for job in registry}
        self._undead = [job.name for job in registry if not job.retry.dead_letter]
        idle = BodyThreads(_nothing, _nothing)
        self._ceilings = Ceilings(clock.deadlines, idle, end=self._end)

    def claim(self, queues: Sequence[str], room: int = CLAIM_LIMIT) -> Taken:
        """Take due runs and those whose worker is gone.

        What lapsed on its last attempt is buried, what a limit refuses is handed back or stands by.
        """
        self._admission.come_forward()
        claims = self._driver.queue.claim(
            ClaimRequest(
                worker=self.name,
                queues=queues,
                names=list(self._specs),
                room=room,
                shares=[room] * len(queues),
                lease=self._lease,
                undead=self._undead,
            )
        )
        for buried in claims.buried:
            self._tell(hook_after_burial(self._specs[buried.name], buried))
        to_run = self._let_in([self._hold(job) for job in claims.jobs])
        return Taken([*claims.buried, *claims.jobs], to_run)

    def run(self, held: Held) -> None:
        """Run the body of a claim to its end.

        Raises:
            BaseException: the body raised what ends a test and not just a job.

        """
        self._ceilings.watch(held)
        try:
            outcome = attempt(held, self._driver, CallingThread(), self._watch.runner)
            self._watch.end_of(held.job.id)
        finally:
            self._clock.deadlines.forget(held)
        if held.flight.land():
            self._end(held, outcome)

    def settle(self) -> None:
        """Write how attempts ended, and do what follows from it."""
        for ended, fate in self._settler.write():
            held = ended.held
            self._held.pop(held.key, None)
            held.leave()
            if fate is Fate.WRITTEN:
                poll = ended.verdict.settlement.poll
                if poll is not None:
                    self._driver.steps.look_again([(ended.settling.id, poll)])
                self._tell(hook_after(ended))

    def beat(self) -> None:
        """Give a sign of life, and tell the bodies of claims that were lost to stop."""
        presence = Presence(
            worker=self.name,
            host="inline",
            pid=0,
            queues=[],
            jobs=list(self._specs),
            concurrency=CLAIM_LIMIT,
            state="running",
        )
        for lost in self._driver.queue.heartbeat(presence, list(self._held), self._lease):
            held = self._held.get(lost.claim)
            if held is not None:
                kind = SlotLost if lost.slot_only else LeaseLost
                held.token.abort(kind(f"'{held.spec.name}' lost what it held."))

    def stop(self) -> None:
        """Tell the bodies at work to stop, as a worker that drains does."""
        for held in self._held.values():
            held.token.abort(Draining("The worker was told to stop."))

    def _hold(self, job: ClaimedJob) -> Held:
        return Held(
            job,
            self._watch.body_of(self._specs[job.name], job.id),
            self.name,
            announce=lambda held: None,
            began_step=self._ceilings.watch_step,
        )

    def _let_in(self, claimed: Sequence[Held]) -> list[Held]:
        answers = self._admission.settle_in(claimed, failed=_raised)
        for held in claimed:
            if held.key not in answers:  # it stands by for a slot
                held.leave()
                continue
            self._held[held.key] = held
            outcome = answers[held.key]
            if outcome is not None:
                self._end(held, outcome)
        return [held for held in claimed if answers.get(held.key, held) is None]

    def _end(self, held: Held, outcome: Outcome) -> None:
        self._watch.ended(held, outcome)
        held.token.abort()
        self._settler.add(held, outcome)

    def _tell(self, hook: Hook | None) -> None:
        failure = None if hook is None else run_hook(hook, self._driver)
        if hook is not None and failure is not None:
            report_failure(hook, failure)
            self._watch.hook_failed(failure)


class CallingThread:
    """Runs the coroutines of bodies so that the ORM does its work on the calling thread."""

    def run(self, make: Callable[[], Awaitable[T]], token: CancelToken) -> T:
        """Run a coroutine to its end, in the caller's context; an abort of the token cancels it."""
        return async_to_sync(until_aborted)(make, token)


def _nothing() -> None:
    pass


def _raised(error: Exception) -> None:
    raise error
