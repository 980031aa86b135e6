"""Steps: read once an attempt, written behind the fence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from ultimate_jobs.core.records import Fence, StepWrite, WaitEnd
from ultimate_jobs.core.replay import StepRecord, StepStatus, step_status
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import UNSURE, ClaimGone
from ultimate_jobs.drivers.connections import open_blocks
from ultimate_jobs.drivers.memory import rules
from ultimate_jobs.drivers.memory.events import come_for, publishes
from ultimate_jobs.drivers.memory.following import Session
from ultimate_jobs.drivers.memory.jsonb import jsonb
from ultimate_jobs.drivers.memory.rows import JobRow, StepRow
from ultimate_jobs.drivers.memory.store import Statement

T = TypeVar("T")


class MemorySteps:
    """The steps."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def load(self, fence: Fence) -> tuple[list[StepRecord], str]:
        """Read the steps of a run."""
        return self._session.run(lambda statement: _load(statement, fence))

    def put(self, fence: Fence, step: StepWrite) -> str | None:
        """Write a step while the claim stands."""
        return self._session.run(lambda statement: _put(statement, fence, step))

    def settle_wait(self, fence: Fence, name: str) -> WaitEnd | None:
        """End a wait that is over."""
        return self._session.run(lambda statement: _settle_wait(statement, fence, name))

    def look_again(self, waits: Sequence[tuple[UUID, timedelta]]) -> list[UUID]:
        """Look once more at runs that have just begun to wait."""
        return self._session.run(lambda statement: _look_again(statement, waits))

    def transaction_depth(self) -> int:
        """Answer how many transaction blocks the thread has open."""
        return open_blocks() + self._session.sessions.own_depth()

    def transact(self, work: Callable[[], T]) -> T:
        """Run work in one transaction."""
        return self._session.sessions.transact(work)


def _load(statement: Statement, fence: Fence) -> tuple[list[StepRecord], str]:
    steps = [row for row in _steps(statement, fence.run_id) if row.job_id == fence.job_id]
    ours = _ours(statement, fence) is not None
    records = [_read(statement, row, ours=ours) for row in steps]
    return records, str(statement.snapshot)


def _read(statement: Statement, row: StepRow, *, ours: bool) -> StepRecord:
    due = row.wake_at is not None and row.wake_at <= statement.now
    if ours and due and row.status == StepStatus.SLEEPING:
        row = replace(
            row,
            status=StepStatus.COMPLETED.value,
            completed_at=statement.now,
            waited_from=statement.snapshot,
        )
        statement.put(statement.tables.steps, row)
    return StepRecord(
        name=row.name,
        position=row.position,
        status=step_status(row.status),
        output=row.output,
        error=row.error,
        attempts=row.attempts,
        wake_at=row.wake_at,
        due=due,
        undoable=row.undoable,
    )


def _put(statement: Statement, fence: Fence, step: StepWrite) -> str | None:
    ours = _ours(statement, fence)
    if ours is None:
        return None
    _hold(statement, ours)
    old = statement.get(statement.tables.steps, (fence.run_id, step.name))
    if old is not None and (old.status == StepStatus.COMPLETED or old.job_id != fence.job_id):
        return None
    since = statement.snapshot if step.since is None else int(step.since)
    first = old or StepRow(
        run_id=fence.run_id,
        name=step.name,
        job_id=fence.job_id,
        position=step.position,
        status="",
        started_at=statement.now - step.took,
        waited_from=since,
    )
    now = replace(
        first,
        status=step.status.value,
        output=None if step.output is None else jsonb(step.output),
        error=step.error,
        attempts=step.attempts,
        undoable=step.undoable,
        completed_at=statement.now if step.status is StepStatus.COMPLETED else None,
        waited_from=since,
    )
    statement.put(statement.tables.steps, now)
    return str(statement.snapshot)


def _settle_wait(statement: Statement, fence: Fence, name: str) -> WaitEnd | None:
    ours = _ours(statement, fence)
    if ours is None:
        raise ClaimGone
    _hold(statement, ours)
    step = statement.get(statement.tables.steps, (fence.run_id, name))
    if step is None or step.status != StepStatus.WAITING:
        return None
    come = come_for(statement, step)
    if come is None and not (step.wake_at is not None and step.wake_at <= statement.now):
        return None
    output = None if come is None else f'{{"payload": {come.payload}}}'
    ended = replace(
        step,
        status=StepStatus.COMPLETED.value,
        completed_at=statement.now,
        attempts=1,
        waited_from=statement.snapshot,
        output=output,
    )
    statement.put(statement.tables.steps, ended)
    return WaitEnd(output)


def _look_again(statement: Statement, waits: Sequence[tuple[UUID, timedelta]]) -> list[UUID]:
    rest_of_all = UNSURE if publishes(statement) else None
    due: list[UUID] = []
    for job_id, poll in waits:
        row = statement.get(statement.tables.jobs, job_id)
        step = _waiting_step(statement, job_id)
        if row is None or step is None or row.state != JobState.SUSPENDED:
            continue
        come = come_for(statement, step) is not None
        rest = statement.now + (rest_of_all or poll)
        rested = rest if step.wake_at is None else min(step.wake_at, rest)
        statement.put(statement.tables.jobs, replace(row, run_at=statement.now if come else rested))
        if come:
            due.append(job_id)
    return due


def _waiting_step(statement: Statement, job_id: UUID) -> StepRow | None:
    rows = statement.find(statement.tables.steps, "job", job_id)
    return next((row for row in rows if row.status == StepStatus.WAITING), None)


def _steps(statement: Statement, run_id: UUID) -> list[StepRow]:
    rows = statement.find(statement.tables.steps, "run", run_id)
    return sorted(rows, key=lambda row: row.position)


def _ours(statement: Statement, fence: Fence) -> JobRow | None:
    return rules.standing(statement, fence.job_id, fence.claim, fence.worker)


def _hold(statement: Statement, row: JobRow) -> None:
    """Keep the claim as it is until this is committed."""
    statement.hold((statement.tables.jobs.name, row.id))
