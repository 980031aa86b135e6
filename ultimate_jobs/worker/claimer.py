"""Claim passes: which queues to ask, for how many rows, and when to look for what got stuck."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from ultimate_jobs.conf import Settings
from ultimate_jobs.core.records import BuriedJob, ClaimedJob, ClaimRequest, Claims
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.worker.rooms import Rooms

REAP_EVERY = 1.0
"""Seconds between two looks for claims whose worker is gone."""


def still_full(queues: Sequence[str], served: Sequence[str], shares: Sequence[int]) -> list[str]:
    """Answer the queues that used up their share: they may hold more, the others do not."""
    taken = Counter(served)
    return [queue for queue, share in zip(queues, shares, strict=True) if taken[queue] >= share]


class Claimer:
    """Claims for one worker, a fair part from every queue."""

    def __init__(
        self,
        driver: Driver,
        registry: Registry,
        settings: Settings,
        worker: str,
        queues: Sequence[str],
    ) -> None:
        self.hungry: set[str] = set()
        """Queues that may hold more than the last pass took."""
        self._driver = driver
        self._lease = settings.visibility_timeout
        self._worker = worker
        self._queues = list(queues)
        self.names = registry.names()
        """The jobs that it asks for."""
        self._undead = [job.name for job in registry if not job.retry.dead_letter]
        self._waitable = frozenset(job.name for job in registry if job.concurrency is None)
        self._passes = 0
        self._next_reap = 0.0

    def take(self, rooms: Rooms) -> Claims:
        """Fill the rooms as far as due work goes; an empty-handed pass is one statement.

        Each queue is offered an equal share; what one leaves is offered to those that used
        theirs up. The queue asked first changes with every pass.
        """
        now = time.monotonic()
        reap = now >= self._next_reap
        first = rooms
        asked = rooms.with_room(self._rotated())
        capped = set(self._queues) - set(asked)
        jobs: list[ClaimedJob] = []
        buried: list[BuriedJob] = []
        while asked and rooms.total > 0:
            shares = rooms.shares(asked)
            try:
                self._driver.between_passes()
                claims = self._driver.queue.claim(self._request(asked, rooms, shares, reap=reap))
            except Exception:
                if jobs or buried:
                    break  # what was claimed before must run; the next pass meets the error again
                raise
            jobs += claims.jobs
            buried += claims.buried
            if reap:
                self._next_reap, reap = now + REAP_EVERY, False
            served = [job.queue for job in claims.jobs]
            full = still_full(asked, served, shares)
            rooms = rooms.after(served)
            asked = rooms.with_room(full)
            capped |= set(full) - set(asked)
        self.hungry = capped | set(asked)
        if first.ahead and len(jobs) >= first.free:  # the next may be one that may not wait
            self.hungry = set(self._queues)
        return Claims(jobs, buried)

    def may_wait(self, job: ClaimedJob) -> bool:
        """Answer whether a run may wait in the worker: it has not run yet, and has another attempt.

        A worker that dies costs each of its claims an attempt, also those that only waited.
        """
        return job.attempt == 1 and job.max_attempts > 1 and job.name in self._waitable

    def _rotated(self) -> list[str]:
        start = self._passes % len(self._queues)
        self._passes += 1
        return self._queues[start:] + self._queues[:start]

    def _request(
        self, queues: Sequence[str], rooms: Rooms, shares: Sequence[int], *, reap: bool
    ) -> ClaimRequest:
        return ClaimRequest(
            worker=self._worker,
            queues=queues,
            names=self.names,
            room=rooms.free,
            shares=shares,
            lease=self._lease,
            reap=reap,
            undead=self._undead,
            ahead=rooms.ahead,
            waitable=list(self._waitable) if rooms.ahead else (),
        )
