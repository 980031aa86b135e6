"""What a task fires of what it missed.

A watermark is the instant up to which a task has been taken care of: everything later is still to
be fired. It only moves forward. However long nobody looked, the cost is the same: occurrences are
computed from their ends, never counted through.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from ultimate_jobs.core.cron import Schedule

CatchUp = Literal["skip", "run-once", "run-all"]

DEFAULT_MAX_CATCH_UP: Final = 10
MOST_CATCH_UP: Final = 1_000
_TICK: Final = timedelta(microseconds=1)
"""The finest difference between two instants in the database."""


@dataclass(frozen=True, slots=True)
class Fire:
    """An occurrence to fire, and the watermark that is written in the same statement."""

    occurrence: datetime
    watermark: datetime


def arm(schedule: Schedule, now: datetime) -> datetime:
    """Answer the first watermark of a task: just before its next occurrence, history behind it."""
    return schedule.next_after(now) - _TICK


def is_ahead(schedule: Schedule, watermark: datetime, now: datetime) -> bool:
    """Answer whether a watermark lies so far in the future that occurrences would be left out."""
    return schedule.latest_until(watermark, now) is not None


def due(
    schedule: Schedule,
    watermark: datetime,
    now: datetime,
    catch_up: CatchUp,
    max_catch_up: int = DEFAULT_MAX_CATCH_UP,
) -> list[Fire]:
    """Answer what is to be fired now, the earliest first; nothing when nothing is due.

    ``skip`` fires the latest occurrence, ``run-once`` the earliest, ``run-all`` the latest
    ``max_catch_up``. What is left out is lost: the last watermark is past everything missed, and
    the first one past what was left out before it.
    """
    latest = schedule.latest_until(now, watermark)
    if latest is None:
        return []
    if catch_up == "run-once":
        return [Fire(schedule.next_after(watermark), latest)]
    missed: list[datetime] = []
    most = max_catch_up if catch_up == "run-all" else 1
    while latest is not None and len(missed) < most:
        missed.append(latest)
        latest = schedule.latest_until(latest - _TICK, watermark)
    return [Fire(occurrence, occurrence) for occurrence in reversed(missed)]
