"""The event loop of ``async def`` bodies: one thread for a whole worker process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from asgiref.sync import ThreadSensitiveContext, sync_to_async

from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.process.cancel import CancelToken, refuse_if_cancelled

T = TypeVar("T")


class Loop(Protocol):
    """Where coroutines run."""

    def run(self, make: Callable[[], Awaitable[T]], token: CancelToken) -> T:
        """Run a coroutine to its end, in the caller's context; an abort of the token cancels it."""


class BodyLoop:
    """Runs coroutines for body threads, which wait for them. Started by the first one."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, make: Callable[[], Awaitable[T]], token: CancelToken) -> T:
        """Run a coroutine to its end, in the caller's context; an abort of the token cancels it.

        What it does with Django's connections happens on one thread of its own, which is closed
        with it.
        """
        loop = self._running()
        done: Future[T] = asyncio.run_coroutine_threadsafe(self._apart(make, token), loop)
        return done.result()

    def close(self) -> None:
        """Stop the loop; tasks that are left are left behind."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    async def _apart(self, make: Callable[[], Awaitable[T]], token: CancelToken) -> T:
        async with ThreadSensitiveContext():
            await sync_to_async(self._driver.start_of_body)(refuse_if_cancelled)
            try:
                return await until_aborted(make, token)
            finally:
                await sync_to_async(self._driver.end_of_body)()
                await sync_to_async(self._driver.close)()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_serve, args=(self._loop,), name="ultimate_jobs-loop", daemon=True
                ).start()
            return self._loop


async def until_aborted(make: Callable[[], Awaitable[T]], token: CancelToken) -> T:
    """Await a coroutine; an abort of the token cancels it."""
    task = asyncio.ensure_future(_coroutine(make))
    loop = asyncio.get_running_loop()
    detach = token.on_abort(lambda reason: loop.call_soon_threadsafe(task.cancel))
    try:
        return await task
    finally:
        detach()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped. A task that exits ends alone: the others go on."""
    try:
        while not _ran_to_its_stop(loop):
            pass
    finally:
        loop.close()


def _ran_to_its_stop(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        loop.run_forever()
    except (SystemExit, KeyboardInterrupt):  # asyncio lets these of a task through
        return False
    return True


def _coroutine(make: Callable[[], Awaitable[T]]) -> Coroutine[Any, Any, T]:
    async def call() -> T:
        return await make()

    return call()
