"""Claim passes: which queues to ask, for how many rows, and when to look again."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence

from ultimate_jobs.conf import Settings
from ultimate_jobs.core.records import BuriedJob, ClaimedJob, ClaimRequest, Claims
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.drivers.base import Driver

REAP_EVERY = 1.0
"""Seconds between two looks for claims whose worker is gone."""


def share_of(room: int, queues: int) -> int:
    """Answer what one queue may take of the free room, when several share it."""
    return math.ceil(room / queues)


def still_full(queues: Sequence[str], served: Sequence[str], share: int) -> list[str]:
    """Answer the queues that used up their share: they may hold more, the others do not."""
    taken = Counter(served)
    return [queue for queue in queues if taken[queue] >= share]


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
        self._driver = driver
        self._lease = settings.visibility_timeout
        self._worker = worker
        self._queues = list(queues)
        self._names = registry.names()
        self._undead = [job.name for job in registry if not job.retry.dead_letter]
        self._passes = 0
        self._next_reap = 0.0

    def take(self, room: int) -> Claims:
        """Fill the room as far as due work goes; an empty-handed pass is one statement.

        Each queue is offered an equal share; what one leaves is offered to those that used
        theirs up. The queue asked first changes with every pass.
        """
        now = time.monotonic()
        reap = now >= self._next_reap
        asked = self._rotated()
        jobs: list[ClaimedJob] = []
        buried: list[BuriedJob] = []
        while asked and len(jobs) < room:
            self._driver.between_passes()
            left = room - len(jobs)
            share = share_of(left, len(asked))
            claims = self._driver.queue.claim(self._request(asked, left, share, reap=reap))
            jobs += claims.jobs
            buried += claims.buried
            if reap:
                self._next_reap, reap = now + REAP_EVERY, False
            asked = still_full(asked, [job.queue for job in claims.jobs], share)
        return Claims(jobs, buried)

    def _rotated(self) -> list[str]:
        start = self._passes % len(self._queues)
        self._passes += 1
        return self._queues[start:] + self._queues[:start]

    def _request(self, queues: Sequence[str], room: int, share: int, *, reap: bool) -> ClaimRequest:
        return ClaimRequest(
            worker=self._worker,
            queues=queues,
            names=self._names,
            room=room,
            share=share,
            lease=self._lease,
            reap=reap,
            undead=self._undead,
        )
