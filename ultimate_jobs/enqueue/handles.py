"""How an enqueued job ends, for whoever holds its ``Enqueued``.

A wait looks, first after a hundredth of a second, then ever more seldom, at least once a second.
One that lasts listens as well, and asks the workers to tell: that shortens it, and nothing rests
on it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.durations import Duration, duration
from ultimate_jobs.core.jsonform import loads
from ultimate_jobs.core.records import Found
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import Part, Unreachable
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import (
    DriverUnavailable,
    InvariantError,
    JobCancelled,
    JobFailed,
    ResultGone,
    ResultNotCommitted,
    ResultTimeout,
)
from ultimate_jobs.process.cancel import refuse_if_cancelled
from ultimate_jobs.process.idle import IdleWait
from ultimate_jobs.process.waits import asking_for, waits

STAGED = "staged"
"""The status of a row that still waits in the outbox; no job has it."""

FIRST_LOOK = timedelta(milliseconds=10)
LAST_LOOK = timedelta(seconds=1)
"""The waits between two looks grow from the one to the other."""

LISTEN_AFTER = 0.25
"""Seconds after which a wait listens as well: most are over by then."""

ASK_EVERY = 10.0
"""Seconds after which workers are asked again: one may have been started since."""


def status(job: UUID) -> str:
    """Answer the state of a job; ``Enqueued.status`` says what that means."""
    state = _found(job).state
    return STAGED if state is None else state.value


def result(job: UUID, timeout: Duration | None) -> Any:
    """Wait for the end of a job; ``Enqueued.result`` says what that means."""
    wait = Wait(job, timeout)
    rung = threading.Event()
    with ExitStack() as listening:
        while not wait.is_over():
            if wait.listens():
                listening.enter_context(waits.waiting(get_driver(), job, rung.set))
            else:
                rung.wait(wait.pause())
            rung.clear()
    return wait.answer


async def aresult(job: UUID, timeout: Duration | None) -> Any:  # noqa: ASYNC109 - as result
    """Wait for the end of a job without holding the thread up."""
    wait = Wait(job, timeout)
    rung = asyncio.Event()
    ring = partial(asyncio.get_running_loop().call_soon_threadsafe, rung.set)
    listening = False
    try:
        while not await sync_to_async(wait.is_over)():
            if wait.listens():
                waits.enter(get_driver(), job, ring)
                listening = True
            else:
                pause = wait.pause()
                with suppress(TimeoutError):
                    await asyncio.wait_for(rung.wait(), pause)
            rung.clear()
    finally:
        if listening:
            await sync_to_async(waits.leave, thread_sensitive=False)(job, ring)
    return wait.answer


class Wait:
    """One wait for the end of a job, between two looks."""

    def __init__(self, job: UUID, timeout: Duration | None) -> None:
        self.answer: Any = None
        self._job = job
        self._began = time.monotonic()
        self._until = self._began + _seconds(timeout)
        self._idle = IdleWait(FIRST_LOOK, LAST_LOOK)
        self._listens = False
        self._ask_at = float("inf")

    def is_over(self) -> bool:
        """Look, and answer whether the job has succeeded; ``answer`` is its result then.

        Raises:
            ResultError: there is none, and there will be none.

        """
        refuse_if_cancelled()
        self._ask()
        found = _found(self._job)
        if found.state is JobState.DONE:
            self.answer = loads(found.result or "null")
            return True
        _refuse_if_lost(self._job, found)
        return False

    def listens(self) -> bool:
        """Answer, once, whether it lasts long enough now to listen as well."""
        if self._listens or time.monotonic() - self._began < LISTEN_AFTER:
            return False
        if not get_settings().wake or Part.WAKE in get_driver().absent:
            return False
        self._listens, self._ask_at = True, 0.0
        return True

    def pause(self) -> float:
        """Answer the seconds until the next look.

        Raises:
            ResultTimeout: there is no time for another one.

        """
        left = self._until - time.monotonic()
        if left <= 0:
            raise ResultTimeout("The job has not ended in time.", meta={"id": str(self._job)})
        return min(self._idle.after(found=False), left)

    def _ask(self) -> None:
        now = time.monotonic()
        if now >= self._ask_at:
            self._ask_at = now + ASK_EVERY
            with suppress(Unreachable):  # the look that follows meets it as well
                get_driver().wake.tell([asking_for(self._job)])


def _found(job: UUID) -> Found:
    try:
        found = get_driver().queue.find(job)
    except Unreachable as error:
        raise DriverUnavailable("The database that holds the jobs did not answer.") from error
    if found is None:
        raise ResultGone("There is no job, and no staged row, with this id.", meta={"id": str(job)})
    return found


def _refuse_if_lost(job: UUID, found: Found) -> None:
    meta: dict[str, object] = {"id": str(job), "state": found.state, "error": found.error}
    if found.state is JobState.CANCELLED:
        raise JobCancelled(f"'{found.name}' was cancelled.", meta=meta)
    if found.has_ended:
        kind = (found.error or "unknown").split(maxsplit=1)[0].rstrip(":")
        raise JobFailed(f"'{found.name}' has failed for good: {kind}.", meta=meta)
    if not found.committed:
        raise ResultNotCommitted(
            f"'{found.name}' was enqueued in a transaction that is open here.", meta=meta
        )


def _seconds(timeout: Duration | None) -> float:
    if timeout is None:
        return float("inf")
    try:
        return duration(timeout, zero=True).total_seconds()
    except ValueError as error:
        raise InvariantError(f"timeout {error}.") from None
