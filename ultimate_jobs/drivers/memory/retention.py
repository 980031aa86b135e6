"""What is deleted when it is old, and what is folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ultimate_jobs.core.states import TERMINAL, JobState
from ultimate_jobs.drivers.memory import rules
from ultimate_jobs.drivers.memory.following import Session
from ultimate_jobs.drivers.memory.rows import CounterRow, JobRow
from ultimate_jobs.drivers.memory.store import Statement
from ultimate_jobs.drivers.memory.tables import K, R, Table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryRetention:
    """One bounded batch at a time, the oldest first; what others hold is passed over."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.store.tables

    def clock(self) -> datetime:
        """Answer the clock that statements go by."""
        return self._session.run(lambda statement: statement.now.astimezone(UTC))

    def delete_jobs(self, state: JobState, before: datetime, limit: int) -> int:
        """Delete jobs that ended in ``state``, with their steps."""

        def delete(statement: Statement) -> int:
            table = statement.tables.jobs
            ended = statement.find(table, "state", state.value) if state in TERMINAL else []
            old = _oldest(statement, table, ended, lambda row: row.updated_at, before)[:limit]
            for row in old:
                remove_job(statement, row)
            return len(old)

        return self._session.run(delete)

    def delete_events(self, before: datetime, limit: int) -> int:
        """Delete expired events."""
        return self._delete_old(self._tables.events, lambda row: row.expires_at, before, limit)

    def delete_leases(self, before: datetime, limit: int) -> int:
        """Delete slots that ran out."""
        return self._delete_old(self._tables.leases, lambda row: row.expires_at, before, limit)

    def delete_receipts(self, before: datetime, limit: int) -> int:
        """Delete published outbox rows."""
        return self._delete_old(self._tables.outbox, lambda row: row.published_at, before, limit)

    def _delete_old(
        self,
        table: Table[K, R],
        instant: Callable[[R], datetime | None],
        before: datetime,
        limit: int,
    ) -> int:
        def delete(statement: Statement) -> int:
            old = _oldest(statement, table, statement.rows(table), instant, before)
            return _delete(statement, table, old[:limit])

        return self._session.run(delete)

    def delete_counters(self, span: int, before: datetime, limit: int) -> int:
        """Delete counters."""

        def delete(statement: Statement) -> int:
            table = statement.tables.counters
            return _delete(statement, table, _counters(statement, span, before)[:limit])

        return self._session.run(delete)

    def fold_counters(self, span: int, into: int, before: datetime, limit: int) -> int:
        """Fold counters into longer buckets."""

        def fold(statement: Statement) -> int:
            table = statement.tables.counters
            ripe = _counters(statement, span, _beginning(into, before))[:limit]
            _delete(statement, table, ripe)
            for row in ripe:
                rules.add(statement, replace(row, span=into, bucket=_beginning(into, row.bucket)))
            return len(ripe)

        return self._session.run(fold)


def remove_job(statement: Statement, row: JobRow) -> None:
    """Remove a job with its steps."""
    statement.remove(statement.tables.jobs, row)
    for step in statement.find(statement.tables.steps, "job", row.id):
        statement.remove(statement.tables.steps, step)


def _counters(statement: Statement, span: int, before: datetime) -> list[CounterRow]:
    table = statement.tables.counters
    rows = [row for row in statement.rows(table) if row.span == span]
    return _oldest(statement, table, rows, lambda row: row.bucket, before)


def _oldest(
    statement: Statement,
    table: Table[K, R],
    rows: list[R],
    instant: Callable[[R], datetime | None],
    before: datetime,
) -> list[R]:
    dated = [(instant(row), row) for row in rows if statement.is_free(table, row)]
    old = [(at, row) for at, row in dated if at is not None and at < before]
    return [row for _, row in sorted(old, key=lambda pair: pair[0])]


def _delete(statement: Statement, table: Table[K, R], rows: list[R]) -> int:
    for row in rows:
        statement.remove(table, row)
    return len(rows)


def _beginning(minutes: int, instant: datetime) -> datetime:
    """Answer when the bucket of an instant began."""
    span = timedelta(minutes=minutes)
    return instant - (instant.astimezone(UTC) - _EPOCH) % span
