"""What a body receives, and what its ending hook receives."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar, cast, final, overload
from uuid import UUID

import msgspec

from ultimate_jobs.core.durations import Duration, duration
from ultimate_jobs.core.jsonform import JSONValue, storable_text
from ultimate_jobs.core.replay import checked_step_name
from ultimate_jobs.core.retry import Retry
from ultimate_jobs.core.schema import schema_for
from ultimate_jobs.core.settlement import Ending, Parked
from ultimate_jobs.errors import (
    DeclarationInvalid,
    InputInvalid,
    InvariantError,
    JobTimeout,
    StepOutputUnserializable,
)
from ultimate_jobs.process.cancel import CancelToken
from ultimate_jobs.steps.runner import StepRunner, wants_signal

I = TypeVar("I")
R = TypeVar("R")
T = TypeVar("T")

MAX_NOTE_CHARS = 1_000
DEFAULT_EVENT_TIMEOUT = timedelta(hours=24)


class Ceilings(Protocol):
    """Watches how long a step takes."""

    def step(self, name: str, token: CancelToken, limit: timedelta) -> AbstractContextManager[None]:
        """Abort ``token`` when the block takes longer than ``limit``."""
        ...


class RunFacts(msgspec.Struct, Generic[I], frozen=True, kw_only=True, eq=False):
    """What a body knows about its attempt.

    Attributes:
        input: the input, parsed from its stored form.
        attempt: the number of this attempt, from 1. Never branch on it for correctness: an
            attempt that was handed back shows its number again.
        job_id: the job's id.
        run_id: names the run, the same on every attempt.
        final_attempt: whether no attempt is left after this one. A terminal error can end the job
            earlier.
        signal: aborted when the run should stop; pass it on to whatever waits.
        tenant: the tenant that the input belongs to, if the job has one.

    """

    input: I
    attempt: int
    job_id: UUID
    run_id: UUID
    final_attempt: bool
    signal: CancelToken
    tenant: str | None
    report: Callable[[JSONValue], None]
    steps: StepRunner
    ceilings: Ceilings
    step_timeout: timedelta | None = None

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the run has come, for whoever watches.

        Written at most once a second and once more when the attempt ends; never after the claim
        was lost.

        Raises:
            InvariantError: a number is negative or not finite.

        """
        for number in (done, total):
            if number is not None and not (math.isfinite(number) and number >= 0):
                raise InvariantError("progress takes finite numbers from zero.")
        self.report(
            {"done": done, "total": total, "note": storable_text(str(note), MAX_NOTE_CHARS)}
        )


@final
class Run(RunFacts[I], frozen=True, kw_only=True, eq=False):
    """One attempt at a job, as its body sees it."""

    @overload
    def step(
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
    def step(
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

    def step(
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
        """Run ``function`` once ever and answer what was stored of its result.

        The result is stored before this returns; a later attempt answers it without calling the
        function. A process that dies in between calls it again: give an effect outside the
        database a key of its own, such as ``f"{run.job_id}:{name}"``.

        Args:
            name: the step's identity within the run; stable across deploys.
            function: called with ``signal=`` if it has a parameter of that name.
            returns: the type to answer; without it plain JSON values are answered.
            once: never call the function a second time. When nobody knows how it ended, the job
                stops with ``X_STEP_OUTCOME_UNKNOWN`` for an operator to resolve.
            compensate: called with the stored output when the run fails for good, the last step
                first; the job declares ``compensates=True``.
            timeout: ceiling of the function; ``step_timeout`` of the job by default.
            retry: retries of this step alone, that use up no attempt of the job.

        Raises:
            StepDuplicate, StepInTransaction, StepNested, DeclarationInvalid: the step cannot be.
            StepOutputUnserializable: the result has no stored form.
            StepOutcomeUnknown: see ``once``.
            JobTimeout: the function took too long.
            Aborted, LeaseLost: the run is to stop; nothing was stored.

        """
        output = self.steps.run(
            name,
            once=once,
            compensate=compensate,
            retry=retry,
            call=lambda: self._called(name, function, timeout),
        )
        return typed(name, returns, output)

    @overload
    def atomic(self, name: str, function: Callable[[], object], *, returns: type[R]) -> R: ...

    @overload
    def atomic(
        self, name: str, function: Callable[[], object], *, returns: None = None
    ) -> JSONValue: ...

    def atomic(self, name: str, function: Callable[[], object], *, returns: Any = None) -> Any:
        """Run ``function`` in a transaction that also stores the step: exactly once.

        Its writes, what it enqueues and the step's record are one commit, on the database that
        holds the jobs, behind the claim. Whatever it raises rolls everything back.

        Args: as ``step``.

        Raises: as ``step``.

        """
        return typed(name, returns, self.steps.atomic(name, function))

    @overload
    def sleep(self, length: Duration, /) -> None: ...

    @overload
    def sleep(self, name: str, length: Duration, /) -> None: ...

    def sleep(self, first: Duration, second: Duration | None = None, /) -> None:
        """Suspend the run, for days if need be. Nothing is held meanwhile.

        ``sleep("3d")`` is named after its length, and repeats are numbered;
        ``sleep("pause", "3d")`` has a name of its own.

        Raises:
            DeclarationInvalid: the name or the length cannot be.

        """
        self.steps.sleep(*sleep_arguments(first, second))

    def sleep_until(self, name: str, instant: datetime) -> None:
        """Suspend the run until an instant, by the database's clock.

        Raises:
            DeclarationInvalid: the name cannot be, or the instant has no time zone.

        """
        self.steps.sleep(name, "", Parked(until=checked_instant(instant)))

    def wait_for_event(
        self,
        name: str,
        event: str,
        *,
        schema: type[T],
        match: str | None = None,
        timeout: Duration = DEFAULT_EVENT_TIMEOUT,
        required: bool = False,
    ) -> T | None:
        """Suspend the run until an event is published, and answer its payload.

        An event counts when it became visible after the step before the wait was called, so an
        answer to that step is never too early; without one, after the wait began. The first one
        wins; event and timeout have one winner, the same on every attempt. Nothing is held
        meanwhile.

        Args:
            name: the step's identity within the run.
            event: the name of the event.
            schema: the type of its payload.
            match: take only events with this correlation key.
            timeout: how long to wait, by the database's clock; ``None`` is answered then.
            required: whether a wait without an event fails the attempt instead.

        Raises:
            EventInvalid: the payload does not fit the schema.
            JobTimeout: no event came, and it was required.

        """
        limit = checked_timeout(name, timeout)
        payload = self.steps.wait(name, event, schema_for(schema), match, limit)
        return cast("T | None", demanded(name, payload, required=required))

    def _called(
        self, name: str, function: Callable[..., object], timeout: Duration | None
    ) -> object:
        limit = self.step_timeout if timeout is None else checked_timeout(name, timeout)
        with self.signal.child() as token:
            extra = {"signal": token} if wants_signal(function) else {}
            if limit is None:
                return function(**extra)
            with self.ceilings.step(name, token, limit):
                value = function(**extra)
            if isinstance(token.reason, JobTimeout):
                raise token.reason
            return value


def typed(name: str, returns: Any, output: JSONValue) -> Any:
    """Read a stored output as the declared type."""
    if returns is None:
        return output
    try:
        return schema_for(returns).parse(output)
    except InputInvalid as error:
        raise StepOutputUnserializable(
            f"The step '{name}' returned what does not fit returns=: {error.cause}"
        ) from None


def sleep_arguments(first: Duration, second: Duration | None) -> tuple[str | None, str, Parked]:
    """Read ``sleep(length)`` and ``sleep(name, length)``."""
    length = first if second is None else second
    try:
        wait = duration(length, zero=True)
    except ValueError as error:
        raise DeclarationInvalid(f"A sleep's length {error}.") from None
    if second is not None:
        return checked_step_name(first), "", Parked(wait=wait)
    label = length if isinstance(length, str) else f"{wait.total_seconds():g}s"
    return None, label, Parked(wait=wait)


def demanded(name: str, payload: Any, *, required: bool) -> Any:
    """Answer what a wait found; nothing at all only where nothing was required."""
    if payload is None and required:
        raise JobTimeout(f"The wait '{name}' ended without an event.")
    return payload


def checked_timeout(name: str, timeout: Duration) -> timedelta:
    """Read the ceiling of a step."""
    try:
        return duration(timeout)
    except ValueError as error:
        raise DeclarationInvalid(f"The timeout of the step '{name}' {error}.") from None


def checked_instant(instant: object) -> datetime:
    """Accept an instant with a time zone."""
    if not isinstance(instant, datetime) or instant.tzinfo is None:
        raise DeclarationInvalid("sleep_until takes a datetime with a time zone.")
    return instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Generic[I]):
    """How a job ended, as its ``on_settled`` hook is told, after the ending was written.

    Attributes:
        outcome: ``completed``, ``dead-lettered``, ``dropped`` or ``refused``.
        job_id: the job's id.
        run_id: the run's id.
        attempt: the number of the last attempt.
        input: the input; ``None`` when the stored one no longer parses.
        result: what the body returned, in its stored form, when it completed.
        error: the row's last error, when it did not.
        code: the error's code, when it has one.
        signal: aborted when the hook has used up its time.

    """

    outcome: Ending
    job_id: UUID
    run_id: UUID
    attempt: int
    input: I | None
    result: JSONValue
    error: str | None
    code: str | None
    signal: CancelToken
