"""Token buckets of the fleet: one row each, one statement a take."""

from __future__ import annotations

from contextlib import nullcontext

from ultimate_jobs.core.bucket import LEAST_WAIT, LONGEST_WAIT, Bucket, Taken
from ultimate_jobs.core.records import BucketPurge
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database


class PostgresRateLimits:
    """The table ``x_rate_limit``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def shared(self) -> bool:
        """Whether all processes draw from the same buckets."""
        return True

    def take(self, key: str, bucket: Bucket, cost: float, *, comes_back: bool) -> Taken | None:
        """Take tokens, on a connection where no transaction is open.

        In one, the row would stay locked until its end, and every other take would wait for that.
        The transaction around a ``TestCase`` is joined: what a test takes ends with the test.
        """
        alone = not self._database.in_transaction() or self._database.in_test_transaction()
        with nullcontext() if alone else self._database.apart():
            rows = self._database.rows(
                sql.RATE_LIMIT_TAKE,
                {
                    "key": key,
                    "capacity": bucket.capacity,
                    "refill_per_second": bucket.refill_per_second,
                    "cost": cost,
                    "comes_back": comes_back,
                    "least_wait": LEAST_WAIT,
                    "longest_wait": LONGEST_WAIT,
                },
            )
        if not rows:
            return None
        ((granted, wait),) = rows
        return Taken(granted=True) if granted else Taken(granted=False, wait=wait)

    def purge(self, limit: int, after: str = "") -> BucketPurge:
        """Delete the full ones among the next buckets."""
        ((deleted, looked_at, last),) = self._database.rows(
            sql.RATE_LIMIT_PURGE, {"limit": limit, "after": after}
        )
        return BucketPurge(deleted=deleted, after=last if looked_at >= limit else None)
