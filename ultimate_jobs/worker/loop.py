"""The dispatcher: one thread that claims, hands out, settles and watches the clock."""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import assert_never

from ultimate_jobs.conf import Settings
from ultimate_jobs.core.prefetch import Prefetch
from ultimate_jobs.core.records import Topic
from ultimate_jobs.core.settlement import Ending, NotStarted, Outcome
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import Draining
from ultimate_jobs.process.log import event
from ultimate_jobs.process.pulse import Pulse
from ultimate_jobs.process.wake import Subscriber
from ultimate_jobs.worker.admission import Admission
from ultimate_jobs.worker.bodies import LOOK_EVERY, Bodies
from ultimate_jobs.worker.ceilings import Ceilings
from ultimate_jobs.worker.claimer import Claimer
from ultimate_jobs.worker.deadlines import Deadlines
from ultimate_jobs.worker.execute import attempt
from ultimate_jobs.worker.held import Held
from ultimate_jobs.worker.hook_calls import HookCalls
from ultimate_jobs.worker.hooks import hook_after
from ultimate_jobs.worker.intake import Intake
from ultimate_jobs.worker.lease import Heartbeat, presence_of
from ultimate_jobs.worker.loops import BodyLoop
from ultimate_jobs.worker.messages import (
    BodiesEnded,
    BodyBegan,
    ClaimsLost,
    HookEnded,
    Hurry,
    Message,
    Noted,
    Quiet,
    Report,
    StepBegan,
    Stop,
    WakeChanged,
    Woken,
)
from ultimate_jobs.worker.outgoing import Outgoing
from ultimate_jobs.worker.pace import Pace
from ultimate_jobs.worker.rooms import Rooms
from ultimate_jobs.worker.settle import Ended, Fate, Settler
from ultimate_jobs.worker.stats import WorkerState, WorkerStats
from ultimate_jobs.worker.threads import BodyThreads
from ultimate_jobs.worker.trust import Trust

_NEVER = float("inf")
_ENDED = BodiesEnded()


class Worker:
    """Runs jobs until it is stopped.

    Args:
        driver: where the rows live.
        registry: the jobs this process knows; it claims no others.
        settings: intervals and limits.
        queues: the queues to serve.
        concurrency: bodies to run at once, over all queues.
        name: what to call the process in rows and logs; host and pid by default. A random part
            is added: two processes never share an id, whatever they are called.
        dice: the source of retry jitter.
        recycle: asked on every turn; a reason lets the worker stop by itself.
        pulse: beaten on every turn, and whenever the database answers or does not.

    Raises:
        ConcurrencyUnenforceable: a job declares a cap that the driver cannot hold.

    """

    def __init__(  # noqa: PLR0913 - each is one thing in which processes differ
        self,
        driver: Driver,
        registry: Registry,
        settings: Settings,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        name: str | None = None,
        dice: random.Random | None = None,
        recycle: Callable[[WorkerStats], str | None] = lambda stats: None,
        pulse: Pulse | None = None,
    ) -> None:
        served = list(dict.fromkeys(queues or settings.queues))
        self.id = f"{name or f'{socket.gethostname()}:{os.getpid()}'}:{secrets.token_hex(4)}"
        admission = Admission(driver, registry, settings, self.id)
        self._driver = driver
        self._drain_timeout = settings.drain_timeout.total_seconds()
        self._concurrency = concurrency or settings.concurrency
        self._queue_caps = settings.queue_concurrency
        self.stats = WorkerStats(self.id, served, max_in_flight=self._concurrency)
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._claimer = Claimer(driver, registry, settings, self.id, served)
        self._repeats = settings.prepared_statements
        self._threads = BodyThreads(self._greet, driver.close, self._concurrency)
        self._loop = BodyLoop(driver)
        self._bodies = Bodies(
            self._threads,
            Prefetch(self._concurrency, 0 if admission.limited else settings.prefetch),
            attempt=lambda held: attempt(held, driver, self._loop),
            began=lambda held: self._inbox.put(BodyBegan(held)),
            ring=lambda: self._inbox.put(_ENDED),
        )
        self._settler = Settler(driver.queue, self.id, dice or random.Random())  # noqa: S311 - jitter is no secret
        self._outgoing = Outgoing(driver, self._settler, self.id, self._bodies.held)
        self._recycle = recycle
        self._pulse = pulse or Pulse("worker")
        self._deadlines = Deadlines()
        self._pace = Pace(self.id, settings, self._deadlines, self._pulse)
        self._ceilings = Ceilings(self._deadlines, self._threads, end=self._end)
        self._hooks = HookCalls(
            driver,
            self._threads,
            self._deadlines,
            has_room=lambda: self._bodies.started + self._hooks.running < self._concurrency,
            ended=lambda hook: self._inbox.put(HookEnded(hook)),
        )
        self._heartbeat = Heartbeat(
            driver,
            settings,
            presence=lambda: presence_of(self.stats, self._claimer.names),
            held=lambda: [held.key for held in list(self._bodies.held)],
            lost=lambda lost: self._inbox.put(ClaimsLost(lost)),
            pulse=self._pulse,
        )
        self._trust = Trust(
            self._bodies,
            self.stats,
            lease=settings.visibility_timeout.total_seconds(),
            renewed_at=lambda: self._heartbeat.renewed_at,
            disown=self._outgoing.disown,
        )
        self._intake = Intake(
            self.id,
            registry,
            self._claimer,
            admission,
            self._bodies,
            self.stats,
            announce=lambda held: self._inbox.put(Noted(held)),
            began_step=lambda ceiling: self._inbox.put(StepBegan(ceiling)),
            end=self._end,
            disown=self._outgoing.disown,
            call=self._hooks.call,
            failed=lambda error: self._pace.failed("jobs.worker.tick-failed", error),
        )
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
        if self._repeats:
            self._driver.repeat_statements(plan_once=True)
        try:
            while not self._is_over():
                self._receive()
                self._deadlines.fire()
                self._collect()
                self._write()
                self._stop_when_recycled()
                if self.stats.state is WorkerState.RUNNING and self._is_time_to_claim():
                    found = self._pass()
                    if until_idle and not found and not self._is_busy() and not feed():
                        self._drain(Stop())
        finally:
            self._close()

    def stop(self) -> None:
        """Stop claiming and wait for what runs, without disturbing it. Any thread."""
        self._inbox.put(Stop())

    def interrupt(self, signal: str, patience: float | None = None) -> None:
        """Stop claiming, tell every body to stop, and wait for them until the drain deadline.

        ``patience`` gives them less: so many seconds. Safe in a signal handler.
        """
        self._inbox.put(Stop(signal, patience))

    def quiet(self) -> None:
        """Claim nothing more, finish what runs, and wait to be stopped. Safe in a signal handler."""
        self._inbox.put(Quiet())

    def report(self) -> None:
        """Log a line for each body that runs. Safe in a signal handler."""
        self._inbox.put(Report())

    def running(self) -> list[dict[str, object]]:
        """Name every run that this process holds, and how long each has run. Any thread."""
        return self._bodies.facts()

    def subscribers(self) -> list[Subscriber]:
        """Say what word of new work the worker wants."""
        work = Subscriber(Topic.JOBS, self.wake, self.trust_wake)
        return [work, self._outgoing.waiters.subscriber()]

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
        return bool(self._bodies.held or len(self._hooks))

    def _receive(self) -> None:
        """Wait for messages until something else is due, and act on all that have come."""
        wait = self._wait()
        self._beat(wait)
        self._bodies.watch()
        try:
            self._on(self._inbox.get(timeout=wait))
            while True:
                self._on(self._inbox.get_nowait())
        except Empty:
            return

    def _beat(self, within: float) -> None:
        self.stats.in_flight = self._bodies.started
        self._pulse.turn(
            within,
            state=self.stats.state,
            in_flight=self.stats.in_flight,
            processed=self.stats.processed + self.stats.failed,
        )

    def _wait(self) -> float:
        due = min(self._drain_until, self._deadlines.next(), self._trust.check())
        if self.stats.state is WorkerState.RUNNING and self._has_room():
            due = min(due, self._pace.next_pass)
        if self._outgoing:
            due = min(due, self._pace.next_write)
        longest = LOOK_EVERY if self._bodies.unattended else 60.0
        return min(max(due - time.monotonic(), 0.0), longest)

    def _on(self, message: Message) -> None:  # noqa: C901, PLR0912 - one case for each kind
        match message:
            case BodiesEnded():
                pass  # they are collected on every turn
            case BodyBegan(held):
                self._ceilings.watch(held)
            case Noted(held):
                self._outgoing.note(held)
            case StepBegan(ceiling):
                self._ceilings.watch_step(ceiling)
            case HookEnded(hook):
                self._hooks.over(hook)
            case ClaimsLost(lost):
                self._trust.lost(lost)
            case Woken(queue):
                if queue in self.stats.queues:
                    self._pace.woken()
            case WakeChanged(live):
                self._pace.trust(live=live)
            case Stop():
                self._drain(message)
            case Quiet():
                self._be_quiet()
            case Report():
                self._bodies.report(self.id)
            case Hurry():
                self._drain_until = time.monotonic()
            case _:
                assert_never(message)

    # Claiming and running

    def _is_time_to_claim(self) -> bool:
        return self._has_room() and time.monotonic() >= self._pace.next_pass

    def _has_room(self) -> bool:
        """Answer whether a run may start at once, or half of those that may wait have started."""
        busy = len(self._bodies.held) + self._hooks.running - self._concurrency
        return busy < 0 or 0 <= 2 * busy < self._bodies.prefetch.ahead

    def _pass(self) -> bool:
        """Claim once, whatever happens; answer whether anything was found or may be there."""
        queues = [held.job.queue for held in self._bodies.held]
        ahead = self._bodies.prefetch.ahead
        rooms = Rooms.left(self._concurrency, self._queue_caps, queues, self._hooks.running, ahead)
        try:
            found, full = self._intake.take(rooms)
        except Exception as error:  # noqa: BLE001 - a loop that ends silently stops every later job
            self._pace.failed("jobs.worker.tick-failed", error)
            return True
        self._pace.claimed(found=found, full=full)
        return found

    def _greet(self) -> None:
        if self._repeats:
            self._driver.repeat_statements()

    # Ending

    def _collect(self) -> None:
        """Take note of what has ended, and see that what waits gets on."""
        for held, outcome in self._bodies.collect():
            self._end(held, outcome)
        self._return(self._bodies.look())

    def _return(self, runs: Sequence[Held]) -> None:
        """Give back runs that were not started."""
        for held in runs:
            self._end(held, NotStarted())

    def _end(self, held: Held, outcome: Outcome) -> None:
        self._deadlines.forget(held)
        held.token.abort()
        self._settler.add(held, outcome)

    def _write(self) -> None:
        """Write what has ended and what was noted; on a failure it is kept and tried again."""
        if time.monotonic() < self._pace.next_write:
            return
        try:
            if self._outgoing.write(self._written):
                self._pace.look_now()
        except Exception as error:  # noqa: BLE001 - a loop that ends silently stops every later job
            self._pace.failed("jobs.worker.settle-failed", error)

    def _written(self, ended: Ended, fate: Fate) -> None:
        held, verdict = ended.held, ended.verdict
        self._bodies.held.discard(held)
        held.leave()
        if held.job.queue in self._claimer.hungry or held.slot is not None:
            self._pace.look_now()
        if fate is Fate.REFUSED:
            self._outgoing.disown(held.key)
        if fate is not Fate.WRITTEN:
            return
        self.stats.count(verdict)
        if verdict.ending is not Ending.COMPLETED:
            self._pace.come_back_for(verdict.settlement)
            if verdict.settlement.poll is not None:
                self._outgoing.look_again(ended.settling.id, verdict.settlement.poll)
        hook = hook_after(ended)
        if hook is not None:
            self._hooks.call(hook)

    # Stopping

    def _stop_when_recycled(self) -> None:
        """Stop like anybody who was told to, once this process has worked enough."""
        if self.stats.state is not WorkerState.RUNNING:
            return
        reason = self._recycle(self.stats)
        if reason is not None:
            event(logging.INFO, "jobs.worker.recycling", worker=self.id, reason=reason)
            self._drain(Stop())

    def _be_quiet(self) -> None:
        if self.stats.state is WorkerState.RUNNING:
            self.stats.state = WorkerState.QUIET
            self._return(self._bodies.give_back())
            event(logging.INFO, "jobs.worker.quiet", worker=self.id)

    def _drain(self, stop: Stop) -> None:
        if self.stats.state is not WorkerState.DRAINING:
            event(logging.INFO, "jobs.worker.draining", worker=self.id, signal=stop.signal)
        self.stats.state = WorkerState.DRAINING
        self._return(self._bodies.give_back())
        if stop.signal is None:
            return
        patience = self._drain_timeout if stop.patience is None else stop.patience
        self._drain_until = min(self._drain_until, time.monotonic() + patience)
        reason = Draining(
            f"The worker got {stop.signal}.", meta={"worker": self.id, "signal": stop.signal}
        )
        for held in self._bodies.held:
            held.token.abort(reason)

    def _close(self) -> None:
        self.stats.state = WorkerState.STOPPED
        self._heartbeat.stop()
        left = list(self._bodies.held)
        self.stats.abandoned += len(left) + len(self._hooks)
        for held in left:
            event(logging.ERROR, "jobs.worker.abandoned", worker=self.id, **held.facts())
        if not left:
            self._heartbeat.farewell()
        self._threads.close()
        self._loop.close()
        self._driver.close()
        self._beat(0.0)
        event(logging.INFO, "jobs.worker.stopped", worker=self.id, processed=self.stats.processed)
