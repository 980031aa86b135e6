"""What the scheduler stores: its lease, the watermarks, the fires."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db import DatabaseError

from ultimate_jobs.core.dispatch import ArmedTask, Fired, Lead, TaskFire, Volley
from ultimate_jobs.drivers.base import FireRefused
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.drivers.postgres.outbox import refusal

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PostgresSchedule:
    """The tables ``x_scheduler_leader`` and ``x_scheduler_state``, and the pauses of tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def lead(self, holder: str, lease: timedelta) -> Lead:
        """Take the lease, or renew it."""
        params = {"holder": holder, "lease": lease}
        ((granted, now, paused),) = self._database.rows(sql.SCHEDULE_LEAD, params)
        return Lead(bool(granted), instant(now), frozenset(paused))

    def release(self, holder: str) -> None:
        """Give the lease up."""
        self._database.rows(sql.SCHEDULE_RELEASE, {"holder": holder})

    def watermarks(self, tasks: Sequence[ArmedTask]) -> dict[str, datetime]:
        """Answer how far each task has come, by its name."""
        params: dict[str, object] = {
            "names": [armed.task for armed in tasks],
            "rules": [armed.rule for armed in tasks],
            "starts": [armed.start for armed in tasks],
        }
        rows = self._database.rows(sql.SCHEDULE_WATERMARKS, params)
        if any(watermark is None for _, watermark in rows):
            rows = self._database.rows(sql.SCHEDULE_WATERMARKS, params)
        return {name: instant(watermark) for name, watermark in rows if watermark is not None}

    def fire(self, holder: str, lease: timedelta, fires: Sequence[TaskFire]) -> Volley:
        """Move watermarks and queue what they let through, in one statement."""
        try:
            rows = self._database.rows(sql.SCHEDULE_FIRE, _params(holder, lease, fires))
        except DatabaseError as error:
            raise FireRefused(refusal(error)) from error
        *_, leading, now = rows[0]
        return Volley(
            bool(leading),
            instant(now),
            {task: Fired(bool(moved), bool(paused)) for task, moved, paused, *_ in rows},
        )


def instant(microseconds: int) -> datetime:
    """Read an instant that was answered as microseconds since 1970.

    A project without time zones gets its timestamps without one; this way they are exact.
    """
    return _EPOCH + timedelta(microseconds=microseconds)


def _params(holder: str, lease: timedelta, fires: Sequence[TaskFire]) -> dict[str, object]:
    rows = [
        (fire.task, batch, job) for fire in fires for batch in fire.batches for job in batch.jobs
    ]
    return {
        "holder": holder,
        "lease": lease,
        "tasks": [fire.task for fire in fires],
        "seen": [fire.seen for fire in fires],
        "watermarks": [fire.watermark for fire in fires],
        "occurrences": [fire.occurrence for fire in fires],
        "job_tasks": [task for task, _, _ in rows],
        "ids": [job.id for _, _, job in rows],
        "run_ids": [job.run_id for _, _, job in rows],
        "keys": [job.idempotency_key for _, _, job in rows],
        "lease_keys": [job.lease_key for _, _, job in rows],
        "inputs": [job.input for _, _, job in rows],
        "names": [batch.name for _, batch, _ in rows],
        "queues": [batch.queue for _, batch, _ in rows],
        "priorities": [batch.priority for _, batch, _ in rows],
        "max_attempts": [batch.max_attempts for _, batch, _ in rows],
        "run_ats": [batch.run_at for _, batch, _ in rows],
        "tenant_ids": [batch.tenant_id for _, batch, _ in rows],
        "traceparents": [batch.traceparent for _, batch, _ in rows],
        "enqueued_by": [batch.enqueued_by for _, batch, _ in rows],
        "related_type_ids": [batch.related_type_id for _, batch, _ in rows],
        "related_ids": [batch.related_id for _, batch, _ in rows],
    }
