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

    ``in_flight`` of at most ``max_in_flight`` runs are held now. ``processed`` jobs were completed, ``failed``
    attempts failed (whether tried again or not), ``suspended`` ones sleep or wait,
    ``dead_lettered`` jobs ended dead. ``leases_lost`` and ``slots_lost`` runs were told to stop
    because they no longer held what they need. ``abandoned`` bodies were left behind at the drain
    deadline.
    """

    worker_id: str
    queues: Sequence[str]
    state: WorkerState = WorkerState.IDLE
    max_in_flight: int = 0
    in_flight: int = 0
    processed: int = 0
    failed: int = 0
    suspended: int = 0
    dead_lettered: int = 0
    leases_lost: int = 0
    slots_lost: int = 0
    abandoned: int = 0

    def count(self, verdict: Verdict) -> None:
        """Count one ending that was written."""
        tally = verdict.settlement.tally
        self.processed += tally.done
        self.failed += tally.retried + tally.failed + tally.dead
        self.dead_lettered += tally.dead
        self.suspended += verdict.settlement.state is JobState.SUSPENDED

    def lost(self, *, slot_only: bool) -> None:
        """Count one run that lost its claim, or its slot."""
        self.slots_lost += slot_only
        self.leases_lost += not slot_only

    def buried(self, state: JobState) -> None:
        """Count one burial."""
        self.failed += 1
        self.dead_lettered += state is JobState.DEAD
