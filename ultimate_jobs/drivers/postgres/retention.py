"""What is deleted when it is old, and what is folded."""

from __future__ import annotations

from datetime import datetime

from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.drivers.postgres.schedule import instant


class PostgresRetention:
    """One bounded batch at a time, each found through an index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def clock(self) -> datetime:
        """Answer the database's clock."""
        ((now,),) = self._database.rows(sql.RETENTION_CLOCK, {})
        return instant(now)

    def delete_jobs(self, state: JobState, before: datetime, limit: int) -> int:
        """Delete jobs that ended in ``state``."""
        return self._count(sql.RETENTION_JOBS, state=state.value, before=before, limit=limit)

    def delete_events(self, before: datetime, limit: int) -> int:
        """Delete expired events."""
        return self._count(sql.RETENTION_EVENTS, before=before, limit=limit)

    def delete_leases(self, before: datetime, limit: int) -> int:
        """Delete slots that ran out."""
        return self._count(sql.RETENTION_LEASES, before=before, limit=limit)

    def delete_receipts(self, before: datetime, limit: int) -> int:
        """Delete published outbox rows."""
        return self._count(sql.RETENTION_RECEIPTS, before=before, limit=limit)

    def delete_counters(self, span: int, before: datetime, limit: int) -> int:
        """Delete counters."""
        return self._count(sql.RETENTION_COUNTERS, span=span, before=before, limit=limit)

    def fold_counters(self, span: int, into: int, before: datetime, limit: int) -> int:
        """Fold counters into longer buckets."""
        return self._count(sql.RETENTION_FOLD, span=span, into=into, before=before, limit=limit)

    def _count(self, statement: str, **params: object) -> int:
        ((count,),) = self._database.rows(statement, params)
        return int(count)
