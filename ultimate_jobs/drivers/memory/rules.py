"""What several stores ask of rows: keys, order, fences, counters."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError

from ultimate_jobs.core.records import Batch, NewJob, Tally, Topic
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.memory.jsonb import jsonb
from ultimate_jobs.drivers.memory.rows import Asked, CounterRow, JobRow, Namespace, StagedRow
from ultimate_jobs.drivers.memory.store import Statement

KEY = "key"
"""The place of an idempotency key: live jobs and staged rows compete for it."""


def asked(batch: Batch, job: NewJob, now: datetime) -> dict[str, object]:
    """Answer the columns that an enqueue decides about."""
    return {
        "id": job.id,
        "run_id": job.run_id,
        "name": batch.name,
        "queue": batch.queue,
        "priority": batch.priority,
        "input": jsonb(job.input),
        "idempotency_key": job.idempotency_key,
        "lease_key": job.lease_key,
        "max_attempts": batch.max_attempts,
        "run_at": batch.run_at or now + (batch.delay or timedelta(0)),
        "tenant_id": batch.tenant_id,
        "traceparent": batch.traceparent,
        "enqueued_by": batch.enqueued_by,
        "related_type_id": batch.related_type_id,
        "related_id": batch.related_id,
    }


def namespace(batch: Batch, job: NewJob) -> Namespace:
    """Answer what at most one live job, and at most one staged row, has."""
    return batch.name, batch.tenant_id or "", job.idempotency_key


def live_job(statement: Statement, key: Namespace) -> JobRow | None:
    """Answer the live job that holds a key."""
    return next(iter(statement.find(statement.tables.jobs, "live", key)), None)


def staged_row(statement: Statement, key: Namespace) -> StagedRow | None:
    """Answer the staged row that holds a key."""
    return next(iter(statement.find(statement.tables.outbox, "staged", key)), None)


def insert_job(statement: Statement, row: JobRow) -> bool:
    """Write a new job, unless its id or key is taken; word is sent when it is due.

    Raises:
        django.db.IntegrityError: it is none that may be stored.

    """
    check(row)
    if row.max_attempts < 1:
        raise IntegrityError('new row for relation "jobs" violates check "attempts_counted"')
    statement.hold((KEY, row.namespace))
    taken = statement.get(statement.tables.jobs, row.id) or live_job(statement, row.namespace)
    if taken is not None:
        return False
    statement.put(statement.tables.jobs, row)
    if row.state == JobState.READY:
        statement.tell(Topic.JOBS, row.queue)
    return True


def check(row: Asked) -> None:
    """Refuse what has no name, queue or key.

    Raises:
        django.db.IntegrityError: this row.

    """
    for column, value in (
        ("name", row.name),
        ("queue", row.queue),
        ("key", row.idempotency_key),
    ):
        if not value:
            raise IntegrityError(f'new row violates check "{column}_not_empty"')


def state_at(run_at: datetime, now: datetime) -> JobState:
    """Answer the state of a new job."""
    return JobState.DELAYED if run_at > now else JobState.READY


def in_turn(row: JobRow) -> tuple[int, datetime, UUID]:
    """Order rows as they are claimed: priority, run_at, id."""
    return -row.priority, row.run_at, row.id


def standing(statement: Statement, job: UUID, claim: int, worker: str) -> JobRow | None:
    """Answer the row of a claim while the claim stands."""
    row = statement.get(statement.tables.jobs, job)
    if row is None or row.state != JobState.RUNNING:
        return None
    return row if (row.claim, row.claimed_by) == (claim, worker) else None


def is_paused(statement: Statement, kind: str, name: str) -> bool:
    """Answer whether a queue or a task is paused."""
    return statement.get(statement.tables.pauses, (kind, name)) is not None


def count(statement: Statement, name: str, tally: Tally, milliseconds: int) -> None:
    """Add an ending to the counters of its job's minute."""
    if tally == Tally():
        return
    bucket = statement.now.replace(second=0, microsecond=0)
    add(
        statement,
        CounterRow(
            span=1,
            bucket=bucket,
            name=name,
            done=tally.done,
            retried=tally.retried,
            failed=tally.failed,
            dead=tally.dead,
            duration_ms=milliseconds,
        ),
    )


def add(statement: Statement, more: CounterRow) -> None:
    """Add a counter to the one of its bucket."""
    table = statement.tables.counters
    old = statement.get(table, table.key(more))
    if old is not None:
        more = replace(
            more,
            done=old.done + more.done,
            retried=old.retried + more.retried,
            failed=old.failed + more.failed,
            dead=old.dead + more.dead,
            duration_ms=old.duration_ms + more.duration_ms,
        )
    statement.put(table, more)
