"""A job's declaration, resolved and validated: a value, with nothing left to interpret."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Final, Generic, Literal, TypeVar, get_args

from ultimate_jobs.core import keys
from ultimate_jobs.core.durations import duration
from ultimate_jobs.core.jsonform import NotStorable, canonical
from ultimate_jobs.core.retry import Retry
from ultimate_jobs.core.schema import Schema
from ultimate_jobs.core.settlement import UNWIND_MARGIN, Ending
from ultimate_jobs.errors import DeclarationInvalid

I = TypeVar("I")
WhenBusy = Literal["wait", "fail"]

MAX_NAME_CHARS = 200
MAX_CAP = 1_000_000
DEFAULT_EVENT_POLL = timedelta(minutes=15)
DEFAULT_ON_SETTLED_TIMEOUT = timedelta(seconds=30)


class NoTenant(Enum):
    """The type of ``NO_TENANT``."""

    NO_TENANT = "none"


NO_TENANT: Final = NoTenant.NO_TENANT
"""Declares that a job belongs to no tenant: its body runs without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency(Generic[I]):
    """At most ``limit`` runs at once that share ``key(input)``.

    ``when_busy="wait"`` runs the job later, uncounted; ``"fail"`` ends it as ``failed`` with
    ``X_JOB_KEY_BUSY``.
    """

    key: Callable[[I], str]
    limit: int
    when_busy: WhenBusy = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Everything a declaration said, defaults filled in.

    ``concurrency`` is the cap however it was declared; ``concurrency_key`` and ``when_busy`` are
    there exactly when the cap is keyed. ``hooked_endings`` are those that ``on_settled`` is told of.
    Every span of time is a timedelta.
    """

    name: str
    queue: str
    schema: Schema[Any]
    tenant: Callable[[Any], str] | NoTenant
    idempotency_key: Callable[[Any], str]
    retry: Retry
    body: Callable[..., Any]
    concurrency: int | None = None
    concurrency_key: Callable[[Any], str] | None = None
    when_busy: WhenBusy | None = None
    timeout: timedelta | None = None
    step_timeout: timedelta | None = None
    event_poll: timedelta = DEFAULT_EVENT_POLL
    compensates: bool = False
    on_settled: Callable[[Any], None] | None = None
    on_settled_timeout: timedelta = DEFAULT_ON_SETTLED_TIMEOUT
    hooked_endings: frozenset[Ending] = frozenset(Ending)

    @property
    def max_attempts(self) -> int:
        """Starts a row may have: the attempts, and with compensations some to unwind in."""
        return self.retry.attempts + (UNWIND_MARGIN if self.compensates else 0)

    def lease_key(self, value: Any) -> str | None:
        """Answer the key whose runs share the cap; ``None`` when there is no cap.

        Raises:
            DeclarationInvalid: the key function answers no text of 1 to 200 characters.

        """
        if self.concurrency is None:
            return None
        if self.concurrency_key is None:
            return keys.lease_key(self.name)
        key = keys.concurrency_key(self.name, self.concurrency_key, value)
        return keys.lease_key(self.name, key)

    def attempts_of(self, max_attempts: int) -> int:
        """Answer how many of a row's starts are attempts at the body."""
        return max(max_attempts - (UNWIND_MARGIN if self.compensates else 0), 1)


def checked_name(what: str, value: object) -> str:
    """Accept a durable name: storable text of 1 to 200 characters.

    Raises:
        DeclarationInvalid: it is not.

    """
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME_CHARS:
        raise DeclarationInvalid(f"{what} must be text of 1 to {MAX_NAME_CHARS} characters.")
    try:
        canonical(value)
    except NotStorable:
        raise DeclarationInvalid(f"{what} holds characters that cannot be stored.") from None
    return value


def checked_span(name: str, field: str, value: object) -> timedelta:
    """Accept a declared span of time.

    Raises:
        DeclarationInvalid: it is none, or not longer than zero.

    """
    try:
        return duration(value)
    except ValueError as error:
        raise DeclarationInvalid(f"'{name}': {field} {error}.") from None


def checked_cap(name: str, value: object) -> int:
    """Accept a number of simultaneous runs.

    Raises:
        DeclarationInvalid: it is no whole number from 1.

    """
    if type(value) is not int or not 1 <= value <= MAX_CAP:
        raise DeclarationInvalid(f"'{name}': a concurrency cap must be a whole number from 1.")
    return value


def checked_concurrency(
    name: str, declared: int | Concurrency[Any] | None
) -> tuple[int | None, Callable[[Any], str] | None, WhenBusy | None]:
    """Resolve a declared cap into limit, key and behaviour when busy."""
    if declared is None:
        return None, None, None
    if not isinstance(declared, Concurrency):
        return checked_cap(name, declared), None, None
    if not callable(declared.key):
        raise DeclarationInvalid(f"'{name}': concurrency.key must be a function of the input.")
    if declared.when_busy not in get_args(WhenBusy):
        raise DeclarationInvalid(f"'{name}': concurrency.when_busy must be 'wait' or 'fail'.")
    return checked_cap(name, declared.limit), declared.key, declared.when_busy


def checked_body(name: str, body: object) -> Callable[..., Any]:
    """Accept a body: a named function of one argument.

    Raises:
        DeclarationInvalid: it is not.

    """
    if not inspect.isfunction(body) or body.__name__ == "<lambda>":
        raise DeclarationInvalid(
            f"'{name}': @job decorates a function with a name.",
            fix="Write the body as def name(run: Run[Input]) -> ...",
        )
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise DeclarationInvalid(
            f"'{name}': the body is a generator.", fix="Write return instead of yield."
        )
    takes = inspect.signature(body).parameters.values()
    needed = [p for p in takes if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    positional = [p for p in takes if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not positional or len(needed) > 1:
        raise DeclarationInvalid(f"'{name}': the body takes exactly one argument, the run.")
    return body
