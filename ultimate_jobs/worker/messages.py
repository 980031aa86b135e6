"""What the dispatcher is told, by other threads and by signal handlers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ultimate_jobs.core.records import Lost
from ultimate_jobs.worker.held import Held, StepCeiling
from ultimate_jobs.worker.hooks import Hook


@dataclass(frozen=True, slots=True)
class BodiesEnded:
    """Bodies have ended, and nobody waits for their threads."""


@dataclass(frozen=True, slots=True)
class BodyBegan:
    """A body with a ceiling has begun."""

    held: Held


@dataclass(frozen=True, slots=True)
class Noted:
    """A run has progress to write."""

    held: Held


@dataclass(frozen=True, slots=True)
class StepBegan:
    """A step with a ceiling has begun."""

    ceiling: StepCeiling


@dataclass(frozen=True, slots=True)
class HookEnded:
    """An ending hook is through."""

    hook: Hook


@dataclass(frozen=True, slots=True)
class ClaimsLost:
    """The heartbeat found that these claims or slots are no longer held."""

    lost: Sequence[Lost]


@dataclass(frozen=True, slots=True)
class Woken:
    """There is new work in a queue."""

    queue: str


@dataclass(frozen=True, slots=True)
class WakeChanged:
    """Word of new work is proven to arrive from now on, or is not any more."""

    live: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop claiming; a signal's name also tells the bodies to stop.

    ``patience`` is how many seconds they get; the settings say so when it is ``None``.
    """

    signal: str | None = None
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class Quiet:
    """Claim nothing more, and stay."""


@dataclass(frozen=True, slots=True)
class Report:
    """Log what runs."""


@dataclass(frozen=True, slots=True)
class Hurry:
    """Stop waiting for bodies."""


Message = (
    BodiesEnded
    | BodyBegan
    | Noted
    | StepBegan
    | HookEnded
    | ClaimsLost
    | Woken
    | WakeChanged
    | Stop
    | Quiet
    | Report
    | Hurry
)
