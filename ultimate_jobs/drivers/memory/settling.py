"""Endings: each behind its claim, with its step, its count, and the slot that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from ultimate_jobs.core.records import Settlement, Settling, Topic
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import UNSURE
from ultimate_jobs.drivers.memory import rules
from ultimate_jobs.drivers.memory.jsonb import jsonb
from ultimate_jobs.drivers.memory.rows import JobRow, StepRow
from ultimate_jobs.drivers.memory.store import Statement

_COMES_BACK = frozenset({JobState.READY, JobState.SUSPENDED})


def settle(statement: Statement, worker: str, endings: Sequence[Settling]) -> set[tuple[UUID, int]]:
    """Write endings; answer the claims that stood."""
    stood: set[tuple[UUID, int]] = set()
    for ending in endings:
        row = rules.standing(statement, ending.id, ending.claim, worker)
        if row is not None:
            _end(statement, row, ending)
            stood.add((ending.id, ending.claim))
    for ending in endings:
        _leave(statement, ending)
    return stood


def _end(statement: Statement, row: JobRow, ending: Settling) -> None:
    settlement = ending.settlement
    due = settlement.until or statement.now + settlement.wait
    now = replace(
        row,
        state=settlement.state.value,
        attempt=row.attempt if settlement.counted else max(row.attempt - 1, 0),
        run_at=_back_at(statement, row, settlement, due),
        last_error=(
            settlement.error
            if settlement.counted or settlement.error is not None
            else row.last_error
        ),
        result=row.result if settlement.result is None else jsonb(settlement.result),
        progress=row.progress if ending.progress is None else jsonb(ending.progress),
        claimed_by=None,
        visible_at=None,
        updated_at=statement.now,
    )
    statement.put(statement.tables.jobs, now)
    _park(statement, now, settlement, due)
    rules.count(statement, now.name, settlement.tally, round(ending.seconds * 1000))
    if now.state == JobState.READY and now.run_at <= statement.now:
        statement.tell(Topic.JOBS, now.queue)


def _back_at(statement: Statement, row: JobRow, settlement: Settlement, due: datetime) -> datetime:
    if settlement.state not in _COMES_BACK or settlement.in_place:
        return row.run_at
    return min(due, statement.now + UNSURE) if settlement.poll else due


def _park(statement: Statement, row: JobRow, settlement: Settlement, due: datetime) -> None:
    parked, steps = settlement.parked, statement.tables.steps
    if parked is None or statement.get(steps, (row.run_id, parked.name)) is not None:
        return
    waits = parked.status is StepStatus.WAITING
    before = _before(statement, row, parked.position) if waits else None
    began = None if before is None else before.completed_at
    statement.put(
        steps,
        StepRow(
            run_id=row.run_id,
            name=parked.name,
            job_id=row.id,
            position=parked.position,
            status=parked.status.value,
            started_at=began or statement.now,
            wake_at=due,
            event=parked.event,
            match=parked.match,
            waited_from=statement.snapshot if before is None else before.waited_from,
        ),
    )


def _before(statement: Statement, row: JobRow, position: int) -> StepRow | None:
    done = (
        step
        for step in statement.find(statement.tables.steps, "run", row.run_id)
        if step.position < position and step.status == StepStatus.COMPLETED
    )
    return max(done, key=lambda step: step.position, default=None)


def _leave(statement: Statement, ending: Settling) -> None:
    slot, leases = ending.slot, statement.tables.leases
    if slot is None:
        return
    row = statement.get(leases, (slot.key, slot.number))
    if row is None or (row.job_id, row.claim) != (ending.id, ending.claim):
        return
    statement.remove(leases, row)
    jobs = statement.tables.jobs
    waiting = sorted(
        (job for job in statement.find(jobs, "blocked", slot.key) if statement.is_free(jobs, job)),
        key=rules.in_turn,
    )
    for job in waiting[:1]:
        statement.put(jobs, replace(job, blocked=False))
        statement.tell(Topic.JOBS, job.queue)
