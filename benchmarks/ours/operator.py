"""What operators and housekeeping ask of a table, timed one by one."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from django.db import connection  # noqa: TID251 - to empty and to fill

from benchmarks.ours.rows import AN_ID
from ultimate_jobs.core.records import ClaimRequest
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.operate import retention
from ultimate_jobs.operate.inspection import Filter
from ultimate_jobs.operate.listing import listing

ROOM = 8
"""Jobs that one claim takes: as many as a worker runs at once by default."""

EXPIRED = f"""
INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, max_attempts, run_at, state,
                    attempt, claim, result, created_at, updated_at)
SELECT {AN_ID}, {AN_ID}, 'noop', 'default', 0, jsonb_build_object('n', n), 'old-' || n, 3,
       now() - interval '1 year', 'done', 1, 1, 'null', now() - interval '1 year', now() - interval '1 year'
  FROM generate_series(1, %s) AS n
"""  # noqa: S608 - constants


class Operator:
    """Answers the milliseconds of each call."""

    def claims(self, count: int) -> list[float]:
        """Claim a few jobs, again and again; the claims are kept."""
        wanted = ClaimRequest(
            worker="benchmarks",
            queues=("default",),
            names=("noop",),
            room=ROOM,
            shares=(ROOM,),
            lease=timedelta(hours=1),
        )
        claim = get_driver().queue.claim
        return [_timed(lambda: claim(wanted)) for _ in range(count)]

    def lists(self, count: int) -> list[float]:
        """Read the newest page of jobs, with the depths of the queues."""
        return [_timed(lambda: listing(Filter())) for _ in range(count)]

    def purge(self, count: int) -> list[float]:
        """Add finished jobs that are past their time, and purge them."""
        with connection.cursor() as cursor:
            cursor.execute(EXPIRED, [count])
        return [_timed(retention.purge)]


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000
