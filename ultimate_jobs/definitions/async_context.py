"""What an ``async def`` body receives."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, TypeVar, cast, final, overload

from asgiref.sync import sync_to_async

from ultimate_jobs.core.durations import Duration
from ultimate_jobs.core.jsonform import JSONValue
from ultimate_jobs.core.retry import Retry
from ultimate_jobs.core.schema import schema_for
from ultimate_jobs.core.settlement import Parked
from ultimate_jobs.definitions.context import (
    DEFAULT_EVENT_TIMEOUT,
    I,
    RunFacts,
    checked_instant,
    checked_timeout,
    demanded,
    sleep_arguments,
    typed,
)
from ultimate_jobs.errors import JobTimeout
from ultimate_jobs.process.cancel import CancelToken
from ultimate_jobs.steps.runner import Answered, inside, wants_signal

R = TypeVar("R")
T = TypeVar("T")


@final
class AsyncRun(RunFacts[I], frozen=True, kw_only=True, eq=False):
    """One attempt at a job, as an ``async def`` body sees it.

    The methods mean what those of ``Run`` mean, and are awaited. Bodies share one event loop per
    worker process: what blocks it blocks them all. An abort of the signal cancels the body's task,
    and a step past its timeout has its function cancelled.
    """

    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., object],
        *,
        returns: type[R],
        once: bool = False,
        compensate: Callable[..., object] | None = None,
        timeout: Duration | None = None,
        retry: Retry | None = None,
    ) -> R: ...

    @overload
    async def step(
        self,
        name: str,
        function: Callable[..., object],
        *,
        returns: None = None,
        once: bool = False,
        compensate: Callable[..., object] | None = None,
        timeout: Duration | None = None,
        retry: Retry | None = None,
    ) -> JSONValue: ...

    async def step(
        self,
        name: str,
        function: Callable[..., object],
        *,
        returns: Any = None,
        once: bool = False,
        compensate: Callable[..., object] | None = None,
        timeout: Duration | None = None,
        retry: Retry | None = None,
    ) -> Any:
        """Run ``function``, plain or async, once ever; see ``Run.step``."""
        steps = self.steps
        opened = await sync_to_async(steps.open)(
            name, once=once, compensate=compensate, retry=retry
        )
        if isinstance(opened, Answered):
            return typed(name, returns, opened.output)
        try:
            with inside(name):
                value = await self._called(name, function, timeout)
        except Exception as error:
            await sync_to_async(steps.failed)(opened, error)
            raise
        return typed(name, returns, await sync_to_async(steps.finish)(opened, value))

    @overload
    async def atomic(self, name: str, function: Callable[[], object], *, returns: type[R]) -> R: ...

    @overload
    async def atomic(
        self, name: str, function: Callable[[], object], *, returns: None = None
    ) -> JSONValue: ...

    async def atomic(
        self, name: str, function: Callable[[], object], *, returns: Any = None
    ) -> Any:
        """Run a plain function in a transaction that also stores the step; see ``Run.atomic``."""
        return typed(name, returns, await sync_to_async(self.steps.atomic)(name, function))

    @overload
    async def sleep(self, length: Duration, /) -> None: ...

    @overload
    async def sleep(self, name: str, length: Duration, /) -> None: ...

    async def sleep(self, first: Duration, second: Duration | None = None, /) -> None:
        """Suspend the run; see ``Run.sleep``."""
        await sync_to_async(self.steps.sleep)(*sleep_arguments(first, second))

    async def sleep_until(self, name: str, instant: datetime) -> None:
        """Suspend the run until an instant; see ``Run.sleep_until``."""
        parked = Parked(until=checked_instant(instant))
        await sync_to_async(self.steps.sleep)(name, "", parked)

    async def wait_for_event(
        self,
        name: str,
        event: str,
        *,
        schema: type[T],
        match: str | None = None,
        timeout: Duration = DEFAULT_EVENT_TIMEOUT,
        required: bool = False,
    ) -> T | None:
        """Suspend the run until an event is published; see ``Run.wait_for_event``."""
        limit = checked_timeout(name, timeout)
        wait = sync_to_async(self.steps.wait)
        payload = await wait(name, event, schema_for(schema), match, limit)
        return cast("T | None", demanded(name, payload, required=required))

    async def _called(
        self, name: str, function: Callable[..., object], timeout: Duration | None
    ) -> object:
        limit = self.step_timeout if timeout is None else checked_timeout(name, timeout)
        with self.signal.child() as token:
            watch: AbstractContextManager[None] = nullcontext()
            if limit is not None:
                watch = self.ceilings.step(name, token, limit)
            with watch:
                value = await self._awaited(function, token)
            if isinstance(token.reason, JobTimeout):
                raise token.reason
            return value

    async def _awaited(self, function: Callable[..., object], token: CancelToken) -> object:
        value = function(**({"signal": token} if wants_signal(function) else {}))
        if not inspect.isawaitable(value):
            return value
        task = asyncio.ensure_future(cast("Awaitable[object]", value))
        loop = asyncio.get_running_loop()
        detach = token.on_abort(lambda reason: loop.call_soon_threadsafe(task.cancel))
        try:
            return await task
        except asyncio.CancelledError:
            if token.reason is None or self.signal.aborted:
                raise
            raise token.reason from None
        finally:
            detach()
