"""What the scheduler stores: its lease, the watermarks, the fires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DatabaseError

from ultimate_jobs.core.dispatch import ArmedTask, Fired, Lead, TaskFire, Volley
from ultimate_jobs.drivers.base import FireRefused
from ultimate_jobs.drivers.memory import rules
from ultimate_jobs.drivers.memory.following import Session
from ultimate_jobs.drivers.memory.outbox import refusal
from ultimate_jobs.drivers.memory.rows import JobRow, LeaderRow, TaskRow
from ultimate_jobs.drivers.memory.store import Statement


class MemorySchedule:
    """The leader, how far each task has come, and the pauses of tasks."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def lead(self, holder: str, lease: timedelta) -> Lead:
        """Take the lease, or renew it."""
        return self._session.run(lambda statement: _lead(statement, holder, lease))

    def release(self, holder: str) -> None:
        """Give the lease up."""
        self._session.run(lambda statement: _release(statement, holder))

    def watermarks(self, tasks: Sequence[ArmedTask]) -> dict[str, datetime]:
        """Answer how far each task has come, by its name."""
        return self._session.run(
            lambda statement: {armed.task: _watermark(statement, armed) for armed in tasks}
        )

    def fire(self, holder: str, lease: timedelta, fires: Sequence[TaskFire]) -> Volley:
        """Move watermarks and queue what they let through, in one statement."""
        try:
            return self._session.run(lambda statement: _fire(statement, holder, lease, fires))
        except DatabaseError as error:
            raise FireRefused(refusal(error)) from error


def _lead(statement: Statement, holder: str, lease: timedelta) -> Lead:
    leader = statement.get(statement.tables.leader, 1)
    paused = frozenset(
        row.name for row in statement.rows(statement.tables.pauses) if row.kind == "task"
    )
    now = statement.now.astimezone(UTC)
    if leader is not None and leader.holder != holder and leader.expires_at > statement.now:
        return Lead(granted=False, now=now, paused=paused)
    goes_on = leader is not None and leader.holder == holder
    since = leader.since if leader is not None and goes_on else statement.now
    statement.put(
        statement.tables.leader,
        LeaderRow(holder=holder, since=since, expires_at=statement.now + lease),
    )
    return Lead(granted=True, now=now, paused=paused)


def _release(statement: Statement, holder: str) -> None:
    leader = statement.get(statement.tables.leader, 1)
    if leader is not None and leader.holder == holder:
        statement.remove(statement.tables.leader, leader)


def _watermark(statement: Statement, armed: ArmedTask) -> datetime:
    tasks = statement.tables.tasks
    known = statement.get(tasks, armed.task)
    if known is None:
        known = TaskRow(name=armed.task, rule=armed.rule, watermark=armed.start)
        statement.put(tasks, known)
    elif known.rule != armed.rule:
        known = replace(known, rule=armed.rule, watermark=max(known.watermark, armed.start))
        statement.put(tasks, known)
    return known.watermark.astimezone(UTC)


def _fire(statement: Statement, holder: str, lease: timedelta, fires: Sequence[TaskFire]) -> Volley:
    leader = statement.get(statement.tables.leader, 1)
    leading = leader is not None and leader.holder == holder
    if leader is not None and leading:
        renewed = replace(leader, expires_at=statement.now + lease)
        statement.put(statement.tables.leader, renewed)
    fired = {
        fire.task: _fired(statement, fire, leading=leading)
        for fire in sorted(fires, key=lambda fire: fire.task)
    }
    return Volley(leading, statement.now.astimezone(UTC), fired)


def _fired(statement: Statement, fire: TaskFire, *, leading: bool) -> Fired:
    paused = rules.is_paused(statement, "task", fire.task)
    row = statement.get(statement.tables.tasks, fire.task)
    stands = row is not None and row.watermark == fire.seen < fire.watermark
    if row is None or not stands or paused or not leading:
        return Fired(moved=False, paused=paused)
    moved = replace(row, watermark=fire.watermark)
    if fire.occurrence is not None:
        moved = replace(moved, last_fired=fire.occurrence, fired_at=statement.now)
    statement.put(statement.tables.tasks, moved)
    _queue(statement, fire)
    return Fired(moved=True, paused=False)


def _queue(statement: Statement, fire: TaskFire) -> None:
    """Insert the jobs of a fire; one whose key a live job holds is left out."""
    for batch in fire.batches:
        for job in batch.jobs:
            columns: dict[str, Any] = rules.asked(batch, job, statement.now)
            state = rules.state_at(columns["run_at"], statement.now)
            row = JobRow(
                **columns,
                state=state.value,
                created_at=statement.now,
                updated_at=statement.now,
            )
            rules.insert_job(statement, row)
