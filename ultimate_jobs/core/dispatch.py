"""Values that cross the seam between the scheduler and the place where rows live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ultimate_jobs.core.records import Batch


@dataclass(frozen=True, slots=True)
class Lead:
    """The answer to a try to lead: whether it was granted, the database's clock, what is paused."""

    granted: bool
    now: datetime
    paused: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ArmedTask:
    """A task, the rule it fires by, and where it would start if it were seen for the first time."""

    task: str
    rule: str
    start: datetime


@dataclass(frozen=True, slots=True)
class TaskFire:
    """What one task has due.

    ``seen`` is the watermark that this was decided on: when the stored one is another, nothing
    happens. ``watermark`` is the new one. ``occurrence`` is the last of those that ``batches`` come
    from; ``None`` when they have no job.
    """

    task: str
    seen: datetime
    watermark: datetime
    occurrence: datetime | None
    batches: Sequence[Batch]

    @property
    def jobs(self) -> int:
        """How many jobs it would queue."""
        return sum(len(batch.jobs) for batch in self.batches)


@dataclass(frozen=True, slots=True)
class Fired:
    """What became of a fire.

    ``moved``: the watermark is the new one, and the jobs are queued. ``paused``: the task is
    paused, nothing happened. Neither: another scheduler has moved the watermark.
    """

    moved: bool
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Volley:
    """The answer to a number of fires: whether the lease stood, the clock, and each by its task."""

    leading: bool
    now: datetime
    fired: dict[str, Fired]
