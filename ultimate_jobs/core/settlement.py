"""How an attempt ended, and what becomes of its row: the only place where that is decided."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

import msgspec

from ultimate_jobs.core.records import ParkedStep, Settlement, Tally
from ultimate_jobs.core.retry import Retry
from ultimate_jobs.core.states import JobState, Verb, target_of
from ultimate_jobs.errors import RateLimited, RetryClass

UNWIND_MARGIN = 2
"""Starts that a job with compensations has beyond its attempts, to unwind in."""

NOT_RETRIED = "(not retried: {code} is terminal)"


class Completed(msgspec.Struct, frozen=True, gc=False):
    """The body returned; ``result`` is its stored form as JSON text."""

    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The body raised, ran out of time, or could not be started.

    ``error`` is what the row keeps; ``kind`` and ``place`` say as much as a log line may.
    """

    error: str
    code: str | None = None
    retry: RetryClass | None = None
    retry_after: timedelta | None = None
    kind: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The worker was told to stop, and the body stopped."""


@dataclass(frozen=True, slots=True)
class HandedBack:
    """The body was not started: a limit leaves no room for it now."""

    wait: timedelta


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The run waited in the worker for its turn, which did not come: it keeps its place."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The body was not started: other runs hold its key, and the job does not wait for them."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """The run sleeps or waits; nothing is held meanwhile."""

    wait: timedelta = timedelta(0)
    until: datetime | None = None
    poll: timedelta | None = None
    step: ParkedStep | None = None


@dataclass(frozen=True, slots=True)
class Unwound:
    """The run had failed for good, and every compensation is done."""

    original: Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwindFailed:
    """A compensation failed. ``final``: it must not be tried again by itself."""

    failed: Failed
    final: bool = False


Outcome = (
    Completed
    | Failed
    | Interrupted
    | HandedBack
    | NotStarted
    | Refused
    | Parked
    | Unwound
    | UnwindFailed
)


class Ending(StrEnum):
    """How a job ended for good, as its ``on_settled`` hook is told."""

    COMPLETED = "completed"
    DEAD_LETTERED = "dead-lettered"
    DROPPED = "dropped"
    REFUSED = "refused"


class StopReason(StrEnum):
    """Why a failed job is not tried again."""

    TERMINAL = "terminal"
    ATTEMPTS_EXHAUSTED = "attempts-exhausted"


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """A settlement, with what it means for the hook and the log."""

    settlement: Settlement
    ending: Ending | None = None
    stop: StopReason | None = None


def is_final(attempt: int, attempts: int) -> bool:
    """Answer whether no attempt is left after this one."""
    return attempt >= attempts


def completed(outcome: Completed) -> Verdict:
    """Turn the commonest outcome into a settlement, for those who know that it is one."""
    return Verdict(
        Settlement(state=_DONE, result=outcome.result, tally=_ONE_DONE), Ending.COMPLETED
    )


def decide(  # noqa: C901, PLR0911 - one return for each kind of ending
    outcome: Outcome,
    *,
    attempt: int,
    attempts: int,
    retry: Retry,
    roll: float,
    compensates: bool = False,
) -> Verdict:
    """Decide what becomes of a row.

    Args:
        outcome: how the attempt ended.
        attempt: its number, from 1.
        attempts: starts the job may have in all.
        retry: the declared policy.
        roll: the jitter of a retry, in 0..1.
        compensates: whether a run that failed for good has to be unwound. One that could not be,
            because it was told to stop, is handed to the next claim, which unwinds it.

    """
    match outcome:
        case Completed(result):
            return Verdict(
                Settlement(state=_DONE, result=result, tally=_ONE_DONE), Ending.COMPLETED
            )
        case Interrupted():
            return Verdict(Settlement(state=_to(Verb.HAND_BACK), counted=False))
        case HandedBack(wait):
            return Verdict(Settlement(state=_to(Verb.HAND_BACK), counted=False, wait=wait))
        case NotStarted():
            return Verdict(Settlement(state=_to(Verb.HAND_BACK), counted=False, in_place=True))
        case Refused(error):
            refused = Settlement(
                state=_to(Verb.FAIL), counted=False, error=error, tally=Tally(failed=1)
            )
            return Verdict(refused, Ending.REFUSED)
        case Parked():
            return Verdict(_parked(outcome))
        case Failed():
            verdict = _failed(outcome, attempt=attempt, attempts=attempts, retry=retry, roll=roll)
            spare = not is_final(attempt, attempts + UNWIND_MARGIN)
            return _to_be_unwound(outcome) if compensates and verdict.stop and spare else verdict
        case Unwound(original):
            return _stopped(original, retry, _why(original))
        case UnwindFailed():
            return _unwind_failed(outcome, attempt, attempts, retry, roll)
        case _:
            assert_never(outcome)


def _failed(failed: Failed, *, attempt: int, attempts: int, retry: Retry, roll: float) -> Verdict:
    if failed.code == RateLimited.code and failed.retry_after is not None:
        waits = Settlement(state=_to(Verb.HAND_BACK), counted=False, wait=failed.retry_after)
        return Verdict(waits)
    if failed.retry == "terminal":
        return _stopped(failed, retry, StopReason.TERMINAL)
    if is_final(attempt, attempts):
        return _stopped(failed, retry, StopReason.ATTEMPTS_EXHAUSTED)
    wait = retry.wait_after(attempt, roll)
    if failed.retry == "retry-after" and failed.retry_after is not None:
        wait = min(failed.retry_after, retry.longest)
    again = Settlement(state=_to(Verb.RETRY), wait=wait, error=failed.error, tally=Tally(retried=1))
    return Verdict(again)


def _parked(parked: Parked) -> Settlement:
    return Settlement(
        state=_to(Verb.SUSPEND),
        counted=False,
        wait=parked.wait,
        until=parked.until,
        poll=parked.poll,
        parked=parked.step,
    )


def _why(failed: Failed) -> StopReason:
    return StopReason.TERMINAL if failed.retry == "terminal" else StopReason.ATTEMPTS_EXHAUSTED


def _to_be_unwound(failed: Failed) -> Verdict:
    return Verdict(Settlement(state=_to(Verb.RETRY), error=failed.error, tally=Tally(retried=1)))


def _unwind_failed(
    outcome: UnwindFailed, attempt: int, attempts: int, retry: Retry, roll: float
) -> Verdict:
    failed = outcome.failed
    if not outcome.final and not is_final(attempt, attempts + UNWIND_MARGIN):
        again = Settlement(
            state=_to(Verb.RETRY),
            wait=retry.wait_after(attempt, roll),
            error=failed.error,
            tally=Tally(retried=1),
        )
        return Verdict(again)
    dead = Settlement(state=_to(Verb.DEAD_LETTER), error=failed.error, tally=Tally(dead=1))
    return Verdict(dead, Ending.DEAD_LETTERED, StopReason.TERMINAL)


def _stopped(failed: Failed, retry: Retry, stop: StopReason) -> Verdict:
    error = failed.error
    if stop is StopReason.TERMINAL:
        first, _, rest = error.partition("\n")
        error = f"{first} {NOT_RETRIED.format(code=failed.code or failed.kind)}\n{rest}".rstrip()
    if retry.dead_letter:
        dead = Settlement(state=_to(Verb.DEAD_LETTER), error=error, tally=Tally(dead=1))
        return Verdict(dead, Ending.DEAD_LETTERED, stop)
    dropped = Settlement(state=_to(Verb.FAIL), error=error, tally=Tally(failed=1))
    return Verdict(dropped, Ending.DROPPED, stop)


def _to(verb: Verb) -> JobState:
    return target_of(verb, JobState.RUNNING)


_DONE = _to(Verb.COMPLETE)
_ONE_DONE = Tally(done=1)
