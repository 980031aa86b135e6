"""What a worker has done so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ultimate_jobs.core.settlement import Verdict
from ultimate_jobs.core.states import JobState


class WorkerState(StrEnum):
    """What a worker is doing."""

    IDLE = "idle"
    RUNNING = "running"
    QUIET = "quiet"
    DRAINING = "draining"
    STOPPED = "stopped"


@dataclass(slots=True)
class WorkerStats:
    """Counts of one worker process; only attempts whose claim still stood at the end are counted.

    ``processed`` jobs were completed, ``failed`` attempts failed (whether tried again or not),
    ``dead_lettered`` jobs ended dead, ``abandoned`` bodies were left behind at the drain deadline.
    """

    worker_id: str
    queues: Sequence[str]
    state: WorkerState = WorkerState.IDLE
    processed: int = 0
    failed: int = 0
    dead_lettered: int = 0
    abandoned: int = 0

    def count(self, verdict: Verdict) -> None:
        """Count one ending that was written."""
        tally = verdict.settlement.tally
        self.processed += tally.done
        self.failed += tally.retried + tally.failed + tally.dead
        self.dead_lettered += tally.dead

    def buried(self, state: JobState) -> None:
        """Count one burial."""
        self.failed += 1
        self.dead_lettered += state is JobState.DEAD
