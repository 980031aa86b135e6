"""What a step does when a run reaches it: answer what is stored, run, wait, or refuse."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ultimate_jobs.core.jsonform import NotStorable, canonical
from ultimate_jobs.errors import DeclarationInvalid, RowStatusUnknown

UNWINDING = "unwinding"
COMPENSATE = "compensate:"
MAX_STEP_NAME_CHARS = 200


class StepStatus(StrEnum):
    """Where a step stands."""

    STARTED = "started"
    COMPLETED = "completed"
    SLEEPING = "sleeping"
    WAITING = "waiting"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A stored step. ``output`` is JSON text; ``due`` says that its wait was over when read."""

    name: str
    position: int
    status: StepStatus
    output: str | None = None
    error: str | None = None
    attempts: int = 0
    wake_at: datetime | None = None
    due: bool = False
    undoable: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """The step is done: answer what it stored."""

    output: str | None


@dataclass(frozen=True, slots=True)
class Go:
    """The step is to run, for the time after ``attempts`` others."""

    attempts: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """An at-most-once step began and nobody knows how it ended."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The step has begun to wait."""

    wake_at: datetime | None


Decision = Replay | Go | Unknown | Wait


def decide_step(record: StepRecord | None, *, once: bool) -> Decision:
    """Decide what a step does."""
    if record is None:
        return Go(0)
    match record.status:
        case StepStatus.COMPLETED:
            return Replay(record.output)
        case StepStatus.SLEEPING | StepStatus.WAITING:
            return Wait(record.wake_at)
        case StepStatus.STARTED | StepStatus.FAILED:
            return Unknown() if once else Go(record.attempts)


def step_status(stored: str) -> StepStatus:
    """Read a stored status.

    Raises:
        RowStatusUnknown: this version does not know it; it is never taken for "not run".

    """
    try:
        return StepStatus(stored)
    except ValueError:
        raise RowStatusUnknown("A step has a status that this version does not know.") from None


def is_reserved(name: str) -> bool:
    """Answer whether a step's name belongs to the unwind."""
    return name == UNWINDING or name.startswith(COMPENSATE)


def checked_label(what: str, given: object) -> str:
    """Accept what an event is called, or which one it is: storable text of 1 to 200 characters.

    Raises:
        DeclarationInvalid: it is not.

    """
    if not isinstance(given, str) or not 1 <= len(given) <= MAX_STEP_NAME_CHARS:
        raise DeclarationInvalid(f"{what} is text of 1 to {MAX_STEP_NAME_CHARS} characters.")
    try:
        canonical(given)
    except NotStorable:
        raise DeclarationInvalid(f"{what} holds characters that cannot be stored.") from None
    return given


def checked_step_name(name: object) -> str:
    """Accept a step's name: text of 1 to 200 characters that is not reserved.

    Raises:
        DeclarationInvalid: it is not.

    """
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_STEP_NAME_CHARS:
        raise DeclarationInvalid(f"A step's name is text of 1 to {MAX_STEP_NAME_CHARS} characters.")
    if is_reserved(name):
        raise DeclarationInvalid(
            "A step's name is reserved: 'unwinding' and 'compensate:...' belong to the unwind."
        )
    if not name.isprintable():
        raise DeclarationInvalid("A step's name has characters that cannot be printed.")
    return name
