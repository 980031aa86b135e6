"""The scheduler process: a tick a second, a round when something is due."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from ultimate_jobs.core import catchup
from ultimate_jobs.definitions.task import Task
from ultimate_jobs.drivers.base import Driver, Unreachable
from ultimate_jobs.errors import DriverUnavailable, JobsError, SchedulerFailed, TaskWatermarkAhead
from ultimate_jobs.process.bell import Bell
from ultimate_jobs.process.idle import Backoff
from ultimate_jobs.process.log import event
from ultimate_jobs.process.pulse import Pulse
from ultimate_jobs.process.wake import Subscriber
from ultimate_jobs.scheduler.agenda import Agenda, Entry
from ultimate_jobs.scheduler.dispatcher import Dispatched, Dispatcher, report
from ultimate_jobs.scheduler.leadership import Leadership

TICK = 1.0
"""Seconds between two ticks, unless something is due before."""


class Scheduler:
    """Fires what tasks have due, while it leads; stands by otherwise.

    Args:
        driver: where the rows live.
        tasks: the tasks this process knows; it fires no others.
        name: what to call the process in rows and logs; host and pid by default. A random part is
            added: two schedulers never share an id.
        pulse: what is told that the loop turns.
        monotonic: a clock that never goes back, in seconds.

    """

    def __init__(
        self,
        driver: Driver,
        tasks: Iterable[Task],
        *,
        name: str | None = None,
        pulse: Pulse | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.id = f"{name or f'{socket.gethostname()}:{os.getpid()}'}:{secrets.token_hex(4)}"
        self._driver = driver
        self._tasks = list(tasks)
        self._leadership = Leadership(driver.schedule, self.id, monotonic)
        self._dispatcher = Dispatcher(
            driver.schedule, self._leadership, driver.end_of_body, monotonic
        )
        self._agenda: Agenda | None = None
        self._led = False
        self._pulse = pulse or Pulse("scheduler")
        self._backoff = Backoff()
        self._bell = Bell()
        self._stopping = False
        self._guard = threading.Lock()
        self._running: Future[Dispatched] | None = None

    @property
    def leading(self) -> bool:
        """Whether this scheduler led when it last asked."""
        return self._leadership.leading

    def subscribers(self) -> list[Subscriber]:
        """Say that the scheduler wants no word of new work: it goes by the clock."""
        return []

    def run(self) -> None:
        """Work until ``stop``; the round in flight is finished first, then the lease given up."""
        event(logging.INFO, "jobs.scheduler.started", scheduler=self.id, tasks=len(self._tasks))
        try:
            while not self._stopping:
                wait = self._turn()
                self._pulse.turn(wait, state="running" if self.leading else "standing by")
                self._bell.wait(wait)
            event(logging.INFO, "jobs.scheduler.draining", scheduler=self.id)
            self._release()
            event(logging.INFO, "jobs.scheduler.stopped", scheduler=self.id)
        finally:
            self._driver.close()

    def stop(self) -> None:
        """End ``run`` after the round in flight; safe in a signal handler."""
        self._stopping = True
        self._bell.ring()

    def tick(self) -> Dispatched:
        """Run one round; while one runs on another thread, wait for that one and answer what it did.

        Raises:
            Unreachable: the database does not answer; what was not fired is still due.

        """
        mine: Future[Dispatched] = Future()
        with self._guard:
            running = self._running
            self._running = running or mine
        if running is not None:
            return running.result()
        try:
            mine.set_result(self._round())
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._guard:
                self._running = None
        return mine.result()

    def _round(self) -> Dispatched:
        due = self._due() if self._leadership.trusted else []
        if not due and self._noticed(leads=self._leadership.holds()):
            self._agenda = self._agenda or self._load()
            due = self._due()
        if not due:
            return Dispatched()
        done = self._dispatcher.dispatch(due, lambda: self._stopping)
        if done.tasks:
            event(logging.INFO, "jobs.scheduler.dispatched", tasks=done.tasks, jobs=done.jobs)
        if done.overtaken:
            self._agenda = None
        self._noticed(leads=self._leadership.holds())
        return done

    def _due(self) -> list[Entry]:
        if self._agenda is None:
            return []
        return self._agenda.due(self._leadership.now(), self._leadership.paused)

    def _noticed(self, *, leads: bool) -> bool:
        """Answer whether this scheduler leads, and say so when that has changed."""
        if leads != self._led:
            self._led = leads
            self._agenda = None
            if leads:
                event(logging.INFO, "jobs.scheduler.leading", scheduler=self.id)
            else:
                event(logging.WARNING, "jobs.scheduler.leadership-lost", scheduler=self.id)
        return leads

    def _load(self) -> Agenda:
        now = self._leadership.now()
        agenda = Agenda.load(self._driver.schedule, self._tasks, now, report)
        for entry in agenda.entries:
            if catchup.is_ahead(entry.task.schedule, entry.watermark, now):
                report(
                    entry.task,
                    TaskWatermarkAhead(
                        f"'{entry.task.name}' is taken care of up to {entry.watermark.isoformat()}, "
                        "which is ahead of the database's clock: nothing is fired before."
                    ),
                )
        return agenda

    def _turn(self) -> float:
        """Run one round whatever happens; answer the seconds until the next."""
        try:
            self._driver.between_passes()
            self.tick()
            wait = self._pause()
        except Unreachable:
            return self._failed(
                DriverUnavailable("The database that holds the jobs did not answer."), "Unreachable"
            )
        except Exception as error:  # noqa: BLE001 - a loop that ends silently fires nothing more
            return self._failed(error, type(error).__name__)
        self._backoff.worked()
        self._pulse.answered()
        return wait

    def _pause(self) -> float:
        following = self._agenda.next_after(self._leadership.paused) if self._agenda else None
        if following is None:
            return TICK
        until = (following - self._leadership.now()).total_seconds()
        return min(TICK, max(until, 0.0))

    def _failed(self, error: Exception, kind: str) -> float:
        wait = self._backoff.failed()
        self._pulse.unanswered()
        known = (
            error if isinstance(error, JobsError) else SchedulerFailed(f"A round raised {kind}.")
        )
        event(
            logging.ERROR,
            "jobs.scheduler.tick-failed",
            error=kind,
            code=known.code,
            cause=known.cause,
            fix=known.fix,
            next_try_seconds=wait,
        )
        return wait

    def _release(self) -> None:
        try:
            self._leadership.release()
        except Exception as error:  # noqa: BLE001 - the lease runs out by itself
            event(logging.WARNING, "jobs.scheduler.release-failed", error=type(error).__name__)
