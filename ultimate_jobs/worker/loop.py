"""The dispatcher: one thread that claims, hands out, settles and watches the clock."""

from __future__ import annotations

import logging
import math
import os
import random
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import assert_never
from uuid import UUID

from ultimate_jobs.conf import Settings
from ultimate_jobs.core.records import BuriedJob, ClaimedJob, HeldClaim, Settlement
from ultimate_jobs.core.settlement import Outcome
from ultimate_jobs.core.states import JobState
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import ConcurrencyUnenforceable, Draining, JobTimeout, LeaseLost
from ultimate_jobs.process.idle import Backoff, IdleWait
from ultimate_jobs.process.log import event
from ultimate_jobs.worker.claimer import Claimer
from ultimate_jobs.worker.deadlines import Deadlines
from ultimate_jobs.worker.execute import attempt, failed
from ultimate_jobs.worker.held import Held, StepCeiling
from ultimate_jobs.worker.hooks import (
    Hook,
    hook_after,
    hook_after_burial,
    report_failure,
    run_hook,
)
from ultimate_jobs.worker.lease import Heartbeat
from ultimate_jobs.worker.loops import BodyLoop
from ultimate_jobs.worker.messages import (
    ClaimsLost,
    Finished,
    HookEnded,
    Hurry,
    Message,
    Noted,
    StepBegan,
    Stop,
    WakeChanged,
    Woken,
)
from ultimate_jobs.worker.settle import Ended, Fate, Settler
from ultimate_jobs.worker.stats import WorkerState, WorkerStats
from ultimate_jobs.worker.threads import BodyThreads

ABORT_GRACE = 0.25
"""Seconds an aborted body gets to stop before its attempt is failed and its thread given up."""

SOON = 60.0
"""Seconds within which a worker comes back by itself for a job that it handed back."""

_NEVER = float("inf")


class Worker:
    """Runs jobs until it is stopped.

    Args:
        driver: where the rows live.
        registry: the jobs this process knows; it claims no others.
        settings: intervals and limits.
        queues: the queues to serve.
        concurrency: bodies to run at once.
        name: what to call the process in rows and logs; host and pid by default. A random part
            is added: two processes never share an id, whatever they are called.
        dice: the source of retry jitter.

    Raises:
        ConcurrencyUnenforceable: a job declares a cap that the driver cannot hold.

    """

    def __init__(
        self,
        driver: Driver,
        registry: Registry,
        settings: Settings,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        name: str | None = None,
        dice: random.Random | None = None,
    ) -> None:
        _refuse_caps(driver, registry)
        served = list(dict.fromkeys(queues or settings.queues))
        self.id = f"{name or f'{socket.gethostname()}:{os.getpid()}'}:{secrets.token_hex(4)}"
        self.stats = WorkerStats(self.id, served)
        self._driver = driver
        self._registry = registry
        self._lease = settings.visibility_timeout.total_seconds()
        self._drain_timeout = settings.drain_timeout.total_seconds()
        self._concurrency = concurrency or settings.concurrency
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._held: dict[HeldClaim, Held] = {}
        self._hooks: set[Hook] = set()
        self._waiting: list[tuple[UUID, timedelta]] = []
        self._disowned: list[HeldClaim] = []
        self._hooks_waiting: deque[Hook] = deque()
        self._noted: dict[HeldClaim, Held] = {}
        self._claimer = Claimer(driver, registry, settings, self.id, served)
        self._settler = Settler(driver.queue, self.id, dice or random.Random())  # noqa: S311 - jitter is no secret
        self._threads = BodyThreads(driver.close)
        self._loop = BodyLoop(driver)
        self._heartbeat = Heartbeat(
            driver,
            settings,
            self.id,
            held=lambda: list(self._held),
            lost=lambda claims: self._inbox.put(ClaimsLost(claims)),
        )
        self._deadlines = Deadlines()
        self._idle = IdleWait(
            settings.poll_interval, settings.idle_poll_max, settings.idle_poll_max_wake
        )
        self._backoff = Backoff()
        self._next_pass = 0.0
        self._next_write = 0.0
        self._drain_until = _NEVER

    def run(self, *, until_idle: bool = False, feed: Callable[[], int] = lambda: 0) -> None:
        """Work until stopped, or, with ``until_idle``, until nothing is due and nothing runs.

        Args:
            until_idle: end by itself.
            feed: asked, when nothing is due, for more work; answers how many jobs it made due.

        """
        self.stats.state = WorkerState.RUNNING
        event(logging.INFO, "jobs.worker.started", worker=self.id, queues=self.stats.queues)
        self._heartbeat.start()
        try:
            while not self._is_over():
                self._receive()
                self._deadlines.fire()
                self._write()
                if self.stats.state is WorkerState.RUNNING and self._is_time_to_claim():
                    found = self._pass()
                    if until_idle and not found and not self._is_busy() and not feed():
                        self._drain(Stop())
        finally:
            self._close()

    def stop(self) -> None:
        """Stop claiming and wait for what runs, without disturbing it. Any thread."""
        self._inbox.put(Stop())

    def interrupt(self, signal: str) -> None:
        """Stop claiming, tell every body to stop, and wait for them until the drain deadline.

        Safe in a signal handler.
        """
        self._inbox.put(Stop(signal))

    def wake(self, queue: str) -> None:
        """Look for work at once, if this worker serves the queue. Any thread."""
        self._inbox.put(Woken(queue))

    def trust_wake(self, live: bool) -> None:  # noqa: FBT001 - what a listener calls
        """Say whether ``wake`` is proven to be called for new work. Any thread."""
        self._inbox.put(WakeChanged(live))

    def hurry(self) -> None:
        """Stop waiting for bodies. Safe in a signal handler."""
        self._inbox.put(Hurry())

    # Waiting and messages

    def _is_over(self) -> bool:
        if self.stats.state is not WorkerState.DRAINING:
            return False
        return not self._is_busy() or time.monotonic() >= self._drain_until

    def _is_busy(self) -> bool:
        return bool(self._held or self._hooks or self._hooks_waiting)

    def _receive(self) -> None:
        """Wait for messages until something else is due, and act on all that have come."""
        try:
            self._on(self._inbox.get(timeout=self._wait()))
            while True:
                self._on(self._inbox.get_nowait())
        except Empty:
            return

    def _wait(self) -> float:
        due = min(self._drain_until, self._deadlines.next(), self._lease_check())
        if self.stats.state is WorkerState.RUNNING and self._room() > 0:
            due = min(due, self._next_pass)
        if len(self._settler) or self._noted or self._waiting or self._disowned:
            due = min(due, self._next_write)
        return min(max(due - time.monotonic(), 0.0), 60.0)

    def _on(self, message: Message) -> None:  # noqa: C901, PLR0912 - one case for each kind
        match message:
            case Finished(held, outcome):
                self._threads.done()
                self._end(held, outcome)
            case Noted(held):
                self._noted[held.key] = held
            case StepBegan(ceiling):
                self._watch(ceiling)
            case HookEnded(hook):
                self._threads.done()
                self._hook_ended(hook)
            case ClaimsLost(claims):
                for claim in claims:
                    self._lose(claim)
            case Woken(queue):
                if queue in self.stats.queues:
                    self._idle.woken()
                    self._look_now()
            case WakeChanged(live):
                self._idle.trust(live=live)
                self._look_now()
            case Stop():
                self._drain(message)
            case Hurry():
                self._drain_until = time.monotonic()
            case _:
                assert_never(message)

    # Claiming and running

    def _is_time_to_claim(self) -> bool:
        return self._room() > 0 and time.monotonic() >= self._next_pass

    def _room(self) -> int:
        return self._concurrency - len(self._held) - len(self._hooks)

    def _pass(self) -> bool:
        """Claim once, whatever happens; answer whether anything was found or may be there."""
        room = self._room()
        asked_at = time.monotonic()
        try:
            claims = self._claimer.take(room)
        except Exception as error:  # noqa: BLE001 - a loop that ends silently stops every later job
            self._failed("jobs.worker.tick-failed", error)
            return True
        self._backoff.worked()
        for job in claims.jobs:
            self._start(job, asked_at)
        for buried in claims.buried:
            self._bury(buried)
        found = bool(claims.jobs or claims.buried)
        wait = self._idle.after(found=found)
        # A full pass looks again as soon as there is room; one that left room has seen all there is.
        self._next_pass = 0.0 if len(claims.jobs) >= room else time.monotonic() + wait
        return found

    def _start(self, job: ClaimedJob, claimed_at: float) -> None:
        known = self._registry.get(job.name)
        if known is None:  # forgotten between the request and the answer
            self._disowned.append(HeldClaim(job.id, job.claim))
            return
        held = Held(
            job,
            known.spec,
            self.id,
            announce=lambda run: self._inbox.put(Noted(run)),
            began_step=lambda ceiling: self._inbox.put(StepBegan(ceiling)),
            claimed_at=claimed_at,
        )
        self._held[held.key] = held
        if known.timeout is not None:
            self._deadlines.set(held, known.timeout.total_seconds(), lambda: self._expire(held))
        self._threads.submit(lambda: self._run_body(held))

    def _run_body(self, held: Held) -> bool:
        outcome = attempt(held, self._driver, self._loop)
        landed = held.flight.land()
        if landed:
            self._inbox.put(Finished(held, outcome))
        return landed

    def _expire(self, held: Held) -> None:
        """Tell a body that its time is over, and soon stop waiting for it."""
        if held.token.abort(JobTimeout(f"'{held.spec.name}' ran past its timeout.")):
            self._deadlines.set(held, ABORT_GRACE, lambda: self._abandon(held))

    def _watch(self, ceiling: StepCeiling) -> None:
        seconds = ceiling.limit.total_seconds()
        self._deadlines.set(ceiling, seconds, lambda: self._expire_step(ceiling))

    def _expire_step(self, ceiling: StepCeiling) -> None:
        """Tell a step that its time is over; one that does not stop takes its attempt with it."""
        if not ceiling.flight.flying:
            return
        reason = JobTimeout(f"The step '{ceiling.name}' ran past its timeout.")
        ceiling.token.abort(reason)
        self._deadlines.set(ceiling, ABORT_GRACE, lambda: self._abandon_step(ceiling, reason))

    def _abandon_step(self, ceiling: StepCeiling, reason: JobTimeout) -> None:
        if ceiling.flight.give_up() and ceiling.held.token.abort(reason):
            self._abandon(ceiling.held)

    def _abandon(self, held: Held) -> None:
        """Fail an attempt whose body does not stop; another thread takes the place of its own."""
        reason = held.token.reason
        if reason is not None and held.flight.give_up():
            self._threads.lost()
            self._end(held, failed(reason))

    # Ending

    def _end(self, held: Held, outcome: Outcome) -> None:
        self._deadlines.forget(held)
        held.token.abort()
        self._settler.add(held, outcome)

    def _write(self) -> None:
        """Write endings and progress; on a failure everything is kept and tried again."""
        if time.monotonic() < self._next_write:
            return
        try:
            for ended, fate in self._settler.write():
                self._written(ended, fate)
            self._write_progress()
            self._look_again()
            self._disown()
        except Exception as error:  # noqa: BLE001 - a loop that ends silently stops every later job
            self._failed("jobs.worker.settle-failed", error)

    def _written(self, ended: Ended, fate: Fate) -> None:
        self._held.pop(ended.held.key, None)
        if fate is Fate.REFUSED:
            self._disowned.append(ended.held.key)
        if fate is not Fate.WRITTEN:
            return
        self.stats.count(ended.verdict)
        settlement = ended.verdict.settlement
        self._come_back_for(settlement)
        if settlement.poll is not None:
            self._waiting.append((ended.settling.id, settlement.poll))
        hook = hook_after(ended)
        if hook is not None:
            self._call(hook)

    def _look_again(self) -> None:
        """Look once more for the events of runs that have just begun to wait."""
        if self._waiting:
            come = self._driver.steps.look_again(self._waiting)
            self._waiting = []
            if come:
                self._look_now()

    def _write_progress(self) -> None:
        noted, self._noted = self._noted, {}
        notes = [
            (key, note)
            for key, held in noted.items()
            if key in self._held and held.flight.flying and (note := held.take_note()) is not None
        ]
        if notes:
            self._driver.queue.record_progress(self.id, notes)

    def _disown(self) -> None:
        """Let go of claims nothing more can be done for: the worker's signs of life hold them."""
        if self._disowned:
            self._driver.queue.disown(self.id, self._disowned)
            self._disowned = []

    def _come_back_for(self, settlement: Settlement) -> None:
        """Look again when a job this worker handed back falls due soon; polling finds the rest."""
        seconds = settlement.wait.total_seconds()
        waits = settlement.state in (JobState.READY, JobState.SUSPENDED)
        if waits and settlement.until is None and seconds <= SOON:
            due = math.ceil((time.monotonic() + seconds) * 10) / 10
            self._deadlines.set(("due", due), due - time.monotonic(), self._look_now)

    def _look_now(self) -> None:
        self._next_pass = 0.0

    def _failed(self, name: str, error: Exception) -> None:
        wait = self._backoff.failed()
        self._next_pass = self._next_write = time.monotonic() + wait
        event(
            logging.ERROR, name, worker=self.id, error=type(error).__name__, next_try_seconds=wait
        )

    # Hooks

    def _bury(self, buried: BuriedJob) -> None:
        self.stats.buried(buried.state)
        event(
            logging.ERROR,
            "jobs.claim.exhausted",
            id=buried.id,
            name=buried.name,
            queue=buried.queue,
            attempt=buried.attempt,
            state=buried.state,
        )
        known = self._registry.get(buried.name)
        hook = hook_after_burial(known.spec, buried) if known is not None else None
        if hook is not None:
            self._call(hook)

    def _call(self, hook: Hook) -> None:
        """Call a hook as soon as there is room for it; it takes a slot like a body."""
        self._hooks_waiting.append(hook)
        self._start_hooks()

    def _start_hooks(self) -> None:
        while self._hooks_waiting and self._room() > 0:
            self._start_hook(self._hooks_waiting.popleft())

    def _start_hook(self, hook: Hook) -> None:
        self._hooks.add(hook)
        seconds = hook.spec.on_settled_timeout.total_seconds()
        self._deadlines.set(hook, seconds, lambda: self._give_up_on(hook))
        self._threads.submit(lambda: self._run_hook(hook))

    def _run_hook(self, hook: Hook) -> bool:
        failure = run_hook(hook, self._driver)
        landed = hook.flight.land()
        if landed:
            if failure is not None:
                report_failure(hook, failure)
            self._inbox.put(HookEnded(hook))
        return landed

    def _give_up_on(self, hook: Hook) -> None:
        late = JobTimeout(f"The on_settled hook of '{hook.spec.name}' took too long.")
        hook.token.abort(late)
        if hook.flight.give_up():
            report_failure(hook, late)
            self._threads.lost()
            self._hook_ended(hook)

    def _hook_ended(self, hook: Hook) -> None:
        self._deadlines.forget(hook)
        self._hooks.discard(hook)
        self._start_hooks()

    # Leases

    def _lease_check(self) -> float:
        """Abort every claim that has not been renewed for a whole lease; answer the next instant."""
        trusted = {key: self._trusted_until(held) for key, held in self._held.items()}
        now = time.monotonic()
        lapsed = [key for key, until in trusted.items() if until <= now]
        for key in lapsed:
            self._lose(key)
        return min((until for key, until in trusted.items() if until > now), default=_NEVER)

    def _trusted_until(self, held: Held) -> float:
        return max(held.claimed_at, self._heartbeat.renewed_at) + self._lease

    def _lose(self, claim: HeldClaim) -> None:
        held = self._held.get(claim)
        if held is not None and held.token.abort(LeaseLost(f"'{held.spec.name}' lost its claim.")):
            event(logging.ERROR, "jobs.lease.lost", worker=self.id, **held.facts())
            self._disowned.append(claim)

    # Stopping

    def _drain(self, stop: Stop) -> None:
        if self.stats.state is WorkerState.RUNNING:
            event(logging.INFO, "jobs.worker.draining", worker=self.id, signal=stop.signal)
        self.stats.state = WorkerState.DRAINING
        if stop.signal is None:
            return
        self._drain_until = min(self._drain_until, time.monotonic() + self._drain_timeout)
        reason = Draining(
            f"The worker got {stop.signal}.", meta={"worker": self.id, "signal": stop.signal}
        )
        for held in self._held.values():
            held.token.abort(reason)

    def _close(self) -> None:
        self.stats.state = WorkerState.STOPPED
        self._heartbeat.stop()
        left = list(self._held.values())
        self.stats.abandoned += len(left) + len(self._hooks) + len(self._hooks_waiting)
        for held in left:
            event(logging.ERROR, "jobs.worker.abandoned", worker=self.id, **held.facts())
        if not left:
            self._say_farewell()
        self._threads.close()
        self._loop.close()
        self._driver.close()
        event(logging.INFO, "jobs.worker.stopped", worker=self.id, processed=self.stats.processed)

    def _say_farewell(self) -> None:
        """Remove the sign of life; with work left behind it stays, so that the lease runs out."""
        if self._heartbeat.renewed_at > float("-inf"):
            try:
                self._driver.queue.farewell(self.id)
            except Exception as error:  # noqa: BLE001 - the row expires by itself
                event(logging.WARNING, "jobs.worker.farewell-failed", error=type(error).__name__)


def _refuse_caps(driver: Driver, registry: Registry) -> None:
    capped = [job.name for job in registry if job.concurrency is not None]
    if capped:
        raise ConcurrencyUnenforceable(
            f"The driver '{driver.name}' has no lease store, and these jobs declare a cap: "
            f"{', '.join(capped)}."
        )
