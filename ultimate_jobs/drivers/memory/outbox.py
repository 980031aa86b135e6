"""Staged rows: written in the caller's transaction, moved to the queue by the relay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import Error

from ultimate_jobs.core.jsonform import storable_text
from ultimate_jobs.core.records import Batch, Enqueued, PoisonRow, RelayPass, Topic
from ultimate_jobs.drivers.base import PublishRefused
from ultimate_jobs.drivers.memory import rules
from ultimate_jobs.drivers.memory.following import Session
from ultimate_jobs.drivers.memory.rows import Asked, JobRow, StagedRow
from ultimate_jobs.drivers.memory.store import Statement
from ultimate_jobs.errors import DriverUnavailable

MAX_REFUSAL_CHARS = 2_000
LONGEST_REST = 300
"""Seconds that a refused row rests at most before it is tried again."""

_COMMON = tuple(field.name for field in fields(Asked))


class MemoryOutbox:
    """The staged rows."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def in_transaction(self) -> bool:
        """Answer whether the caller has a transaction open here."""
        return self._session.sessions.current() is not None

    def in_foreign_transaction(self) -> bool:
        """Answer whether the caller has a transaction open on another database only."""
        return self._session.sessions.is_foreign()

    def stage(self, batch: Batch) -> list[Enqueued]:
        """Write a batch in the caller's transaction."""
        return self._session.run(lambda statement: _stage(statement, batch))

    def relay(self, limit: int) -> RelayPass:
        """Move committed rows to the queue in one statement."""
        return self._relay(limit, only=None)

    def isolate(self, limit: int) -> tuple[RelayPass, list[PoisonRow]]:
        """Move what can be moved row by row, and set the refused ones aside."""
        due = self._session.run(lambda statement: _due(statement, limit, only=None))
        moved = RelayPass()
        poison: list[PoisonRow] = []
        for row in due:
            try:
                done = self._relay(1, only=row.id)
            except PublishRefused as refused:
                poison.append(self._set_aside(row, refused))
            else:
                moved = RelayPass(
                    moved.seen + done.seen,
                    moved.published + done.published,
                    moved.deduped + done.deduped,
                )
        return moved, poison

    def pending(self) -> int:
        """Count the rows that wait."""
        return self._session.run(
            lambda statement: len(statement.find(statement.tables.outbox, "waiting", value=True))
        )

    def _relay(self, limit: int, only: UUID | None) -> RelayPass:
        try:
            return self._session.run(lambda statement: _relay(statement, limit, only))
        except Error as error:
            raise PublishRefused from error

    def _set_aside(self, row: StagedRow, refused: PublishRefused) -> PoisonRow:
        error = refusal(refused.__cause__ or refused)
        self._session.run(lambda statement: _refuse(statement, row.id, error))
        return PoisonRow(row.id, row.name, error)


def refusal(error: BaseException) -> str:
    """Say why a row was refused."""
    return storable_text(f"{type(error).__name__}: {error}", MAX_REFUSAL_CHARS)


def _stage(statement: Statement, batch: Batch) -> list[Enqueued]:
    found: dict[UUID, Enqueued] = {}
    for job in sorted(batch.jobs, key=lambda job: job.idempotency_key):
        key = rules.namespace(batch, job)
        statement.hold((rules.KEY, key))
        holder = rules.live_job(statement, key) or rules.staged_row(statement, key)
        if holder is not None:
            found[job.id] = Enqueued(holder.id, holder.run_id, deduped=True)
            continue
        columns: dict[str, Any] = rules.asked(batch, job, statement.now)
        row = StagedRow(**columns, staged_at=statement.now)
        rules.check(row)
        if statement.get(statement.tables.outbox, row.id) is not None:
            raise DriverUnavailable(f"The id of a job of '{row.name}' is that of an older row.")
        statement.put(statement.tables.outbox, row)
        statement.tell(Topic.OUTBOX, row.queue)
        found[job.id] = Enqueued(row.id, row.run_id, deduped=False)
    return [found[job.id] for job in batch.jobs]


def _due(statement: Statement, limit: int, only: UUID | None) -> Sequence[StagedRow]:
    outbox = statement.tables.outbox
    rows = [
        row
        for row in statement.find(outbox, "waiting", value=True)
        if (row.retry_at is None or row.retry_at <= statement.now)
        and (only is None or row.id == only)
        and statement.is_free(outbox, row)
    ]
    return sorted(rows, key=lambda row: (row.staged_at, row.id))[:limit]


def _relay(statement: Statement, limit: int, only: UUID | None) -> RelayPass:
    rows = _due(statement, limit, only)
    published = sum(_publish(statement, row) for row in rows)
    return RelayPass(len(rows), published, len(rows) - published)


def _publish(statement: Statement, row: StagedRow) -> bool:
    """Move a row; answer whether it became a job. Otherwise it stays, as a receipt."""
    common: dict[str, Any] = {name: getattr(row, name) for name in _COMMON}
    job = JobRow(
        **common,
        state=rules.state_at(row.run_at, statement.now).value,
        created_at=row.staged_at,
        updated_at=statement.now,
    )
    if rules.insert_job(statement, job):
        statement.remove(statement.tables.outbox, row)
        return True
    holder = statement.get(statement.tables.jobs, row.id) or rules.live_job(
        statement, row.namespace
    )
    receipt = replace(row, published_at=statement.now, job_id=holder.id if holder else None)
    statement.put(statement.tables.outbox, receipt)
    return False


def _refuse(statement: Statement, row_id: UUID, error: str) -> None:
    row = statement.get(statement.tables.outbox, row_id)
    if row is None or row.published_at is not None:
        return
    rest = timedelta(seconds=min(2 ** min(row.refusals, 16), LONGEST_REST))
    refused = replace(
        row, refusals=row.refusals + 1, last_error=error, retry_at=statement.now + rest
    )
    statement.put(statement.tables.outbox, refused)
