"""When a process has worked enough: it drains, ends with 0, and another one takes its place."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from ultimate_jobs.conf import Settings
from ultimate_jobs.worker.stats import WorkerStats

AHEAD_OF_LIMIT = 10
"""A process takes at most one of so many of its jobs ahead: by that part it may go past the limit."""

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a process works; ``None`` is for ever.

    Attributes:
        jobs: attempts that ended.
        memory: resident bytes, looked at after a job.
        lifetime: since it was started.

    """

    jobs: int | None = None
    memory: int | None = None
    lifetime: timedelta | None = None

    def reached(self, *, jobs: int, memory: int, lived: float) -> str | None:
        """Name the first limit that is reached; answer ``None`` while there is none."""
        if self.jobs is not None and jobs >= self.jobs:
            return "max-jobs"
        if self.memory is not None and memory >= self.memory:
            return "max-memory"
        if self.lifetime is not None and lived >= self.lifetime.total_seconds():
            return "max-lifetime"
        return None

    def within(self, settings: Settings) -> Settings:
        """Answer settings by which a process does not take far more jobs than it may."""
        if self.jobs is None:
            return settings
        return replace(settings, prefetch=min(settings.prefetch, self.jobs // AHEAD_OF_LIMIT))


class Recycler:
    """Asked by a worker on every turn whether it has worked enough."""

    def __init__(
        self,
        limits: Limits,
        *,
        measure: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._measure = measure or resident_bytes
        self._clock = clock
        self._since = clock()
        self._jobs = 0

    def __call__(self, stats: WorkerStats) -> str | None:
        """Name the limit that this process has reached, if any."""
        jobs = stats.processed + stats.failed
        measured = self._limits.memory is not None and jobs > self._jobs
        self._jobs = jobs
        return self._limits.reached(
            jobs=jobs,
            memory=self._measure() if measured else 0,
            lived=self._clock() - self._since,
        )


def resident_bytes() -> int:
    """Answer the memory that this process has in use; where there is no ``/proc``, its peak."""
    if _STATM.exists():
        pages = int(_STATM.read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
