"""Token buckets."""

from __future__ import annotations

from ultimate_jobs.core.bucket import Bucket, Level, Taken, refilled, take
from ultimate_jobs.core.records import BucketPurge
from ultimate_jobs.drivers.memory.following import Session
from ultimate_jobs.drivers.memory.rows import BucketRow
from ultimate_jobs.drivers.memory.store import Statement


class MemoryRateLimits:
    """The buckets of this process, which is all there is."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def shared(self) -> bool:
        """Whether every process that uses the store draws from the same buckets: there is one."""
        return True

    def take(self, key: str, bucket: Bucket, cost: float, *, comes_back: bool) -> Taken | None:
        """Take tokens, in no transaction that is open, but that of a ``TestCase``."""
        joins = self._session.sessions.is_of_a_test_case()
        run = self._session.run if joins else self._session.run_apart
        return run(lambda statement: _take(statement, key, bucket, cost, comes_back=comes_back))

    def purge(self, limit: int, after: str = "") -> BucketPurge:
        """Delete the full ones among the next buckets."""
        return self._session.run(lambda statement: _purge(statement, limit, after))


def _take(
    statement: Statement, key: str, bucket: Bucket, cost: float, *, comes_back: bool
) -> Taken:
    row = statement.get(statement.tables.buckets, key)
    level, taken = take(bucket, _level(row), cost, statement.now.timestamp(), comes_back=comes_back)
    statement.put(
        statement.tables.buckets,
        BucketRow(
            key=key,
            tokens=level.tokens,
            capacity=bucket.capacity,
            refill_per_second=bucket.refill_per_second,
            at=level.at,
            promised=level.promised,
        ),
    )
    return taken


def _level(row: BucketRow | None) -> Level | None:
    return None if row is None else Level(row.tokens, row.at, row.promised)


def _purge(statement: Statement, limit: int, after: str) -> BucketPurge:
    buckets = statement.tables.buckets
    behind = sorted(row.key for row in statement.rows(buckets) if row.key > after)[:limit]
    deleted = 0
    for key in behind:
        row = statement.get(buckets, key)
        if row is not None and statement.is_free(buckets, row) and _is_full(statement, row):
            statement.remove(buckets, row)
            deleted += 1
    return BucketPurge(deleted, behind[-1] if len(behind) >= limit and behind else None)


def _is_full(statement: Statement, row: BucketRow) -> bool:
    bucket = Bucket(row.capacity, row.refill_per_second)
    return refilled(bucket, _level(row), statement.now.timestamp()).tokens >= row.capacity
