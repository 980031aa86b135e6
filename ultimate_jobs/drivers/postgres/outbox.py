"""Staged rows: written in the caller's transaction, moved to the queue by the relay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db import Error

from ultimate_jobs.core.jsonform import storable_text
from ultimate_jobs.core.records import Batch, Enqueued, NewJob, PoisonRow, RelayPass
from ultimate_jobs.drivers.base import PublishRefused
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.batches import (
    Answers,
    answer_of,
    answered,
    answers_of,
    parameters,
)
from ultimate_jobs.drivers.postgres.connection import Database

WAKE_PATIENCE = timedelta(seconds=2)
"""A row that has waited for no longer has a relay on its way."""

MAX_REFUSAL_CHARS = 2_000


class PostgresOutbox:
    """The table ``x_outbox``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def in_transaction(self) -> bool:
        """Answer whether the caller has a transaction open here."""
        return self._database.in_transaction()

    def in_foreign_transaction(self) -> bool:
        """Answer whether the caller has a transaction open on another database only."""
        return self._database.in_foreign_transaction()

    def stage(self, batch: Batch) -> list[Enqueued]:
        """Write a batch in the caller's transaction."""
        return answered(batch, lambda jobs: self._stage(batch, jobs))

    def relay(self, limit: int) -> RelayPass:
        """Move committed rows to the queue in one statement."""
        return self._relay(limit, only=None)

    def isolate(self, limit: int) -> tuple[RelayPass, list[PoisonRow]]:
        """Move what can be moved, halving until the refused rows stand alone."""
        due = self._database.rows(sql.OUTBOX_DUE, {"limit": limit})
        names: dict[UUID, str] = {row[0]: row[1] for row in due}
        moved = RelayPass()
        poison: list[PoisonRow] = []
        parts = [list(names)]
        while parts:
            part = parts.pop()
            try:
                done = self._relay(len(part), only=part)
            except PublishRefused as refused:
                if len(part) > 1:
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                else:
                    poison.append(self._set_aside(part[0], names[part[0]], refused))
            else:
                moved = _added(moved, done)
        return moved, poison

    def pending(self) -> int:
        """Count the rows that wait."""
        ((count,),) = self._database.rows(sql.OUTBOX_PENDING, {})
        return int(count)

    def staged(self, batch: Batch) -> set[UUID]:
        """Name the staged rows, visible here, that hold the batch's keys."""
        rows = self._database.rows(
            sql.OUTBOX_STAGED,
            {
                "name": batch.name,
                "tenant_id": batch.tenant_id,
                "keys": [job.idempotency_key for job in batch.jobs],
            },
        )
        return {row[0] for row in rows}

    def publish(self, ids: Sequence[UUID]) -> int:
        """Move some rows that this transaction staged; answer how many became jobs."""
        return self._move(len(ids), only=ids).published

    def _relay(self, limit: int, only: Sequence[UUID] | None) -> RelayPass:
        try:
            return self._move(limit, only)
        except Error as error:
            raise PublishRefused from error

    def _move(self, limit: int, only: Sequence[UUID] | None) -> RelayPass:
        params = {"limit": limit, "only": list(only) if only is not None else None}
        ((seen, published, deduped),) = self._database.rows(sql.OUTBOX_RELAY, params)
        return RelayPass(seen, published, deduped)

    def _set_aside(self, row: UUID, name: str, refused: PublishRefused) -> PoisonRow:
        error = refusal(refused.__cause__ or refused)
        self._database.rows(sql.OUTBOX_REFUSE, {"id": row, "error": error})
        return PoisonRow(row, name, error)

    def _stage(self, batch: Batch, jobs: Sequence[NewJob]) -> Answers:
        params = parameters(batch, jobs) | {"wake_patience": WAKE_PATIENCE}
        if len(jobs) == 1:
            rows = self._database.rows(sql.OUTBOX_STAGE_ONE, params, repeated=True)
            return answer_of(jobs, rows)
        return answers_of(jobs, self._database.rows(sql.OUTBOX_STAGE, params, repeated=True))


def refusal(error: BaseException) -> str:
    """Say why the database refused a row, without its detail, which quotes the row."""
    reason = getattr(getattr(error.__cause__, "diag", None), "message_primary", None)
    return storable_text(
        f"{type(error).__name__}: {reason or 'no reason given'}", MAX_REFUSAL_CHARS
    )


def _added(one: RelayPass, other: RelayPass) -> RelayPass:
    return RelayPass(
        one.seen + other.seen,
        one.published + other.published,
        one.deduped + other.deduped,
    )
