"""What an operator does to jobs, and what is paused; ``choosing`` and ``counting`` are what is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from uuid import UUID

from ultimate_jobs.core.records import Backlog, Fleet, QueueDepth, Requeue, Stranded, Topic
from ultimate_jobs.core.replay import COMPENSATE, StepStatus
from ultimate_jobs.core.selection import Chosen, Look, Moved, Selection
from ultimate_jobs.core.states import MOVES, JobState, Verb, state_of, target_of
from ultimate_jobs.drivers.memory import counting, rules
from ultimate_jobs.drivers.memory.choosing import choose
from ultimate_jobs.drivers.memory.following import Session
from ultimate_jobs.drivers.memory.jsonb import jsonb
from ultimate_jobs.drivers.memory.retention import remove_job
from ultimate_jobs.drivers.memory.rows import JobRow, PauseRow, StepRow
from ultimate_jobs.drivers.memory.store import Statement

Act = Callable[[Statement, JobRow], None]
Able = Callable[[Statement, JobRow], bool]
_IN_DOUBT = frozenset({StepStatus.STARTED, StepStatus.FAILED})


class MemoryOperator:
    """Verbs over jobs and their steps."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def cancel(self, job: UUID, reason: str | None) -> bool:
        """Cancel a live job."""
        moved = self._many([job], 1, _can(Verb.CANCEL), lambda s, row: _cancel(s, row, reason))
        return bool(moved.jobs)

    def requeue(self, job: UUID, from_step: str | None) -> Requeue:
        """Make a finished job due now."""
        return self._session.run(lambda statement: _requeue_one(statement, job, from_step))

    def resolve_step(self, job: UUID, step: str, *, ran: bool, output: str | None) -> bool:
        """Say how a step in doubt ended."""
        return self._session.run(
            lambda statement: _resolve(statement, job, step, ran=ran, output=output)
        )

    def choose(self, selection: Selection, look: Look) -> Chosen:
        """Find jobs that meet a selection."""
        return self._session.run(lambda statement: choose(statement, selection, look))

    def requeue_many(self, jobs: Sequence[UUID], limit: int) -> Moved:
        """Make finished jobs due now."""
        return self._session.run(lambda statement: _requeue_many(statement, jobs, limit))

    def cancel_many(self, jobs: Sequence[UUID], limit: int, reason: str | None) -> Moved:
        """Cancel live jobs."""
        return self._many(jobs, limit, _can(Verb.CANCEL), lambda s, row: _cancel(s, row, reason))

    def promote_many(self, jobs: Sequence[UUID], limit: int) -> Moved:
        """Make jobs due now that wait for their time."""
        return self._many(jobs, limit, _waits_for_its_time, _promote)

    def remove_many(self, jobs: Sequence[UUID], limit: int) -> Moved:
        """Remove jobs that do not run, with their steps."""
        return self._many(jobs, limit, _rests, _remove)

    def pause(self, kind: str, name: str, *, by: str | None, reason: str | None) -> bool:
        """Pause a queue or a task."""

        def pause(statement: Statement) -> bool:
            if rules.is_paused(statement, kind, name):
                return False
            now = statement.now
            row = PauseRow(kind=kind, name=name, paused_at=now, paused_by=by, reason=reason)
            statement.put(statement.tables.pauses, row)
            return True

        return self._session.run(pause)

    def resume(self, kind: str, name: str) -> bool:
        """Resume a queue or a task."""

        def resume(statement: Statement) -> bool:
            row = statement.get(statement.tables.pauses, (kind, name))
            if row is None:
                return False
            statement.remove(statement.tables.pauses, row)
            if kind == "queue":
                statement.tell(Topic.JOBS, name)
            return True

        return self._session.run(resume)

    def queues(self, cap: int) -> list[QueueDepth]:
        """Count what the queues hold."""
        return self._session.run(lambda statement: counting.queues(statement, cap))

    def demand(self, cap: int) -> Mapping[str, int]:
        """Count what could keep workers busy."""
        return self._session.run(lambda statement: counting.demand(statement, cap))

    def backlog(self, cap: int) -> Backlog:
        """Count what the outbox holds."""
        return self._session.run(lambda statement: counting.backlog(statement, cap))

    def fleet(self, *, workers: int, tasks: Sequence[str] | None) -> Fleet:
        """Answer who works and what is scheduled."""
        return self._session.run(
            lambda statement: counting.fleet(statement, workers=workers, tasks=tasks)
        )

    def stranded(self, patience: timedelta, window: int) -> list[Stranded]:
        """Find due jobs that no living worker can take."""
        return self._session.run(lambda statement: counting.stranded(statement, patience, window))

    def statements(self) -> Mapping[str, str]:
        """Answer that there is no text of a statement."""
        return MappingProxyType({})

    def _many(self, jobs: Sequence[UUID], limit: int, able: Able, act: Act) -> Moved:
        def move(statement: Statement) -> Moved:
            rows = [row for row in _newest(statement, jobs) if able(statement, row)]
            return _moved(statement, rows, limit, act)

        return self._session.run(move)


def _newest(statement: Statement, jobs: Sequence[UUID]) -> list[JobRow]:
    rows = (statement.get(statement.tables.jobs, job) for job in dict.fromkeys(jobs))
    found = [row for row in rows if row is not None]
    return sorted(found, key=lambda row: (row.created_at, row.id), reverse=True)


def _moved(statement: Statement, rows: Sequence[JobRow], limit: int, act: Act) -> Moved:
    for row in rows[:limit]:
        act(statement, row)
    return Moved(jobs=tuple(row.id for row in rows[:limit]), remaining=max(len(rows) - limit, 0))


def _can(verb: Verb) -> Able:
    return lambda statement, row: row.state in MOVES[verb].sources


def _cancel(statement: Statement, row: JobRow, reason: str | None) -> None:
    cancelled = replace(
        row,
        state=target_of(Verb.CANCEL, state_of(row.state)).value,
        last_error=row.last_error if reason is None else reason,
        claimed_by=None,
        visible_at=None,
        updated_at=statement.now,
    )
    statement.put(statement.tables.jobs, cancelled)


def _waits_for_its_time(statement: Statement, row: JobRow) -> bool:
    return row.state in MOVES[Verb.PROMOTE].sources and row.run_at > statement.now


def _promote(statement: Statement, row: JobRow) -> None:
    state = target_of(Verb.PROMOTE, state_of(row.state)).value
    promoted = replace(row, state=state, run_at=statement.now, updated_at=statement.now)
    statement.put(statement.tables.jobs, promoted)
    statement.tell(Topic.JOBS, row.queue)


def _rests(statement: Statement, row: JobRow) -> bool:
    return row.state != JobState.RUNNING


def _remove(statement: Statement, row: JobRow) -> None:
    remove_job(statement, row)
    for lease in statement.rows(statement.tables.leases):
        if lease.job_id == row.id and lease.expires_at <= statement.now:
            statement.remove(statement.tables.leases, lease)


# Requeue


def _requeue_one(statement: Statement, job: UUID, from_step: str | None) -> Requeue:
    row = statement.get(statement.tables.jobs, job)
    if row is None:
        return Requeue(moved=False)
    state = state_of(row.state)
    statement.hold((rules.KEY, row.namespace))
    live = rules.live_job(statement, row.namespace)
    holder = None if live is None or live.id == row.id else live.id
    step = statement.get(statement.tables.steps, (row.run_id, from_step or ""))
    undone = step is not None and _would_stay_undone(statement, row, step)
    able = state in MOVES[Verb.REQUEUE].sources and holder is None and not undone
    moved = able and (from_step is None or step is not None)
    if moved:
        _requeue(statement, row)
        _forget_from(statement, row, step)
    return Requeue(
        moved=moved, state=state, holder=holder, step_known=step is not None, undone=undone
    )


def _requeue(statement: Statement, row: JobRow) -> None:
    due = replace(
        row,
        state=target_of(Verb.REQUEUE, state_of(row.state)).value,
        attempt=0,
        run_at=statement.now,
        blocked=False,
        result=None,
        updated_at=statement.now,
    )
    statement.put(statement.tables.jobs, due)
    statement.tell(Topic.JOBS, due.queue)


def _would_stay_undone(statement: Statement, row: JobRow, first: StepRow) -> bool:
    """Answer whether a step would be kept whose compensation would be forgotten."""
    steps = {step.name: step for step in statement.find(statement.tables.steps, "run", row.run_id)}
    return any(
        step.position < first.position
        and (undo := steps.get(COMPENSATE + step.name)) is not None
        and undo.position >= first.position
        for step in steps.values()
    )


def _forget_from(statement: Statement, row: JobRow, first: StepRow | None) -> None:
    if first is None:
        return
    for step in statement.find(statement.tables.steps, "run", row.run_id):
        if step.position >= first.position:
            statement.remove(statement.tables.steps, step)


def _requeue_many(statement: Statement, jobs: Sequence[UUID], limit: int) -> Moved:
    """Requeue what can be; of several with one key the newest."""
    able: dict[tuple[str, str, str], JobRow] = {}
    for row in _newest(statement, jobs):
        if row.state in MOVES[Verb.REQUEUE].sources and row.namespace not in able:
            statement.hold((rules.KEY, row.namespace))
            if rules.live_job(statement, row.namespace) is None:
                able[row.namespace] = row
    return _moved(statement, list(able.values()), limit, _requeue)


def _resolve(statement: Statement, job: UUID, name: str, *, ran: bool, output: str | None) -> bool:
    row = statement.get(statement.tables.jobs, job)
    if row is None or row.state == JobState.RUNNING:
        return False
    step = statement.get(statement.tables.steps, (row.run_id, name))
    if step is None or step.status not in _IN_DOUBT:
        return False
    statement.hold((statement.tables.jobs.name, row.id))
    if not ran:
        statement.remove(statement.tables.steps, step)
        return True
    done = replace(
        step,
        status=StepStatus.COMPLETED.value,
        output=None if output is None else jsonb(output),
        error=None,
        completed_at=statement.now,
    )
    statement.put(statement.tables.steps, done)
    return True
