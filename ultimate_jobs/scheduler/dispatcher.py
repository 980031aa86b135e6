"""From what is due to fires; an error in one task stays with that task."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ultimate_jobs.core import catchup
from ultimate_jobs.core.dispatch import TaskFire
from ultimate_jobs.core.records import Batch
from ultimate_jobs.definitions.task import Task
from ultimate_jobs.drivers.base import FireRefused, Schedule
from ultimate_jobs.enqueue.occurrence import prepare_occurrence
from ultimate_jobs.errors import JobsError, TaskFireFailed
from ultimate_jobs.process.log import event
from ultimate_jobs.scheduler.agenda import Entry
from ultimate_jobs.scheduler.leadership import LEASE, Leadership

FIRE_CHUNK = 1_000
"""Rows, of watermarks and of jobs, that one statement writes; a single task may have more."""


@dataclass(slots=True)
class Dispatched:
    """What a round did. ``overtaken``: another scheduler has moved a watermark meanwhile."""

    tasks: int = 0
    jobs: int = 0
    overtaken: bool = False


class Dispatcher:
    """Fires entries in as few statements as possible.

    Args:
        schedule: where fires are stored.
        leadership: whether this process may fire, and what time it is.
        tidy: closes and rolls back what the tasks' functions left on this thread's connections.
        monotonic: a clock that never goes back, in seconds.

    """

    def __init__(
        self,
        schedule: Schedule,
        leadership: Leadership,
        tidy: Callable[[], object],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._schedule = schedule
        self._leadership = leadership
        self._tidy = tidy
        self._monotonic = monotonic

    def dispatch(self, due: Sequence[Entry], stopping: Callable[[], bool]) -> Dispatched:
        """Fire what is due, until leadership is lost or ``stopping`` says so.

        Raises:
            Unreachable: the database does not answer; what was not fired is still due.

        """
        done = Dispatched()
        ready = [(entry, fire) for entry in due if (fire := self._fire_of(entry)) is not None]
        self._tidy()  # a transaction that a task's function left open must not hold the fires
        for chunk in _chunks(ready):
            if stopping() or not self._leadership.trusted:
                break
            self._fire(chunk, done)
        return done

    def _fire_of(self, entry: Entry) -> TaskFire | None:
        task = entry.task
        try:
            fires = catchup.due(
                task.schedule,
                entry.watermark,
                self._leadership.now(),
                task.catch_up,
                task.max_catch_up,
            )
            batches: list[Batch] = []
            occurrence = None
            for fire in fires:
                found = prepare_occurrence(task, fire.occurrence)
                occurrence = fire.occurrence if found else occurrence
                batches += found
        except Exception as error:  # noqa: BLE001 - an error in one task stays with that task
            self._failed(entry, error)
            return None
        if not fires:
            return None
        return TaskFire(task.name, entry.watermark, fires[-1].watermark, occurrence, batches)

    def _fire(self, chunk: Sequence[tuple[Entry, TaskFire]], done: Dispatched) -> None:
        """Fire in one statement; halve it when the database refuses a row, until that stands alone."""
        parts = [chunk]
        while parts:
            part = parts.pop()
            try:
                self._fire_at_once(part, done)
            except FireRefused as refused:
                if len(part) > 1:
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                else:
                    self._failed(part[0][0], refused)

    def _fire_at_once(self, part: Sequence[tuple[Entry, TaskFire]], done: Dispatched) -> None:
        asked_at = self._monotonic()
        volley = self._schedule.fire(self._leadership.holder, LEASE, [fire for _, fire in part])
        self._leadership.fired(asked_at, volley)
        if not volley.leading:
            return
        self._leadership.found_paused(t for t, fired in volley.fired.items() if fired.paused)
        for entry, fire in part:
            fired = volley.fired[fire.task]
            if fired.moved:
                entry.moved_to(fire.watermark)
                done.tasks += 1
                done.jobs += fire.jobs
            elif not fired.paused:
                done.overtaken = True

    def _failed(self, entry: Entry, error: Exception) -> None:
        wait = entry.failed(self._leadership.now())
        report(entry.task, error, next_try_seconds=wait)


def report(task: Task, error: Exception, **fields: object) -> None:
    """Log what went wrong with one task: code, cause and what to do."""
    known = error if isinstance(error, JobsError) else _explained(task, error)
    event(
        logging.ERROR,
        "jobs.scheduler.task-failed",
        task=task.name,
        error=type(error).__name__,
        code=known.code,
        cause=known.cause,
        fix=known.fix,
        **fields,
    )


def _explained(task: Task, error: Exception) -> JobsError:
    if isinstance(error, FireRefused):
        return TaskFireFailed(f"The database refused what '{task.name}' has due: {error}.")
    return TaskFireFailed(f"enqueue= of '{task.name}' raised {type(error).__name__}.")


def _chunks(
    ready: Sequence[tuple[Entry, TaskFire]],
) -> Iterator[Sequence[tuple[Entry, TaskFire]]]:
    chunk: list[tuple[Entry, TaskFire]] = []
    rows = 0
    for entry, fire in ready:
        size = max(1, fire.jobs)
        if chunk and rows + size > FIRE_CHUNK:
            yield chunk
            chunk, rows = [], 0
        chunk.append((entry, fire))
        rows += size
    if chunk:
        yield chunk
