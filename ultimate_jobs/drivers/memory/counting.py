"""What an operator sees at a glance: depths, the backlog, the fleet, what is stranded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ultimate_jobs.core.records import Backlog, Fleet, QueueDepth, Stranded
from ultimate_jobs.core.selection import UNSUCCESSFUL
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.memory import rules
from ultimate_jobs.drivers.memory.rows import JobRow, PauseRow, TaskRow, WorkerRow
from ultimate_jobs.drivers.memory.store import Statement

MOST_TASKS = 1_000


def queues(statement: Statement, cap: int) -> list[QueueDepth]:
    """Count what the queues hold, every count up to a cap."""
    rows = statement.rows(statement.tables.jobs)
    running = [row for row in rows if row.state == JobState.RUNNING]
    running = sorted(running, key=lambda row: (row.claimed_by, row.visible_at))[:cap]
    ended = [row for row in rows if row.state in UNSUCCESSFUL]
    ended = sorted(ended, key=lambda row: (row.created_at, row.id), reverse=True)[:cap]
    waiting = [row for row in rows if row.is_waiting]
    pauses = {
        row.name: row for row in statement.rows(statement.tables.pauses) if row.kind == "queue"
    }
    names = {row.queue for row in [*running, *ended, *waiting]} | set(pauses)
    return [
        _depth(
            statement.now,
            name,
            cap,
            [row for row in waiting if row.queue == name],
            [row for row in running if row.queue == name],
            [row for row in ended if row.queue == name],
            capped=any(
                len(some) >= cap and any(row.queue == name for row in some)
                for some in (running, ended)
            ),
            pause=pauses.get(name),
        )
        for name in sorted(names)
    ]


def _depth(  # noqa: PLR0913 - what is counted, each by itself
    now: datetime,
    queue: str,
    cap: int,
    waiting: list[JobRow],
    running: list[JobRow],
    ended: list[JobRow],
    *,
    capped: bool,
    pause: PauseRow | None,
) -> QueueDepth:
    free = sorted((row for row in waiting if not row.blocked), key=rules.in_turn)
    counted = free[:cap]
    standing_by = [row for row in waiting if row.blocked][:cap]
    due = [row for row in free if row.run_at <= now]
    states = Counter(row.state for row in ended)
    return QueueDepth(
        queue=queue,
        ready=sum(row.state != JobState.SUSPENDED and row.run_at <= now for row in counted),
        delayed=sum(row.state != JobState.SUSPENDED and row.run_at > now for row in counted),
        standing_by=len(standing_by),
        running=len(running),
        suspended=sum(row.state == JobState.SUSPENDED for row in counted),
        failed=states[JobState.FAILED],
        dead=states[JobState.DEAD],
        capped=capped or max(len(counted), len(standing_by)) >= cap,
        oldest_ready_seconds=_seconds(now - min(row.run_at for row in due)) if due else None,
        paused_at=None if pause is None else pause.paused_at,
        paused_by=None if pause is None else pause.paused_by,
        pause_reason=None if pause is None else pause.reason,
    )


def _seconds(span: timedelta) -> float:
    return max(span.total_seconds(), 0.0)


def demand(statement: Statement, cap: int) -> dict[str, int]:
    """Count what may be claimed now and what runs, by queue."""
    rows = statement.rows(statement.tables.jobs)
    due = Counter(
        row.queue
        for row in rows
        if row.is_waiting
        and not row.blocked
        and row.run_at <= statement.now
        and not rules.is_paused(statement, "queue", row.queue)
    )
    running = [row.queue for row in rows if row.state == JobState.RUNNING][:cap]
    found = Counter({queue: min(count, cap) for queue, count in due.items()}) + Counter(running)
    return dict(sorted(found.items()))


def backlog(statement: Statement, cap: int) -> Backlog:
    """Count what waits in the outbox, up to a cap."""
    rows = statement.find(statement.tables.outbox, "waiting", value=True)
    waiting = sorted(rows, key=lambda row: (row.staged_at, row.id))[:cap]
    return Backlog(
        waiting=len(waiting),
        refused=sum(row.refusals > 0 for row in waiting),
        oldest_seconds=_seconds(statement.now - waiting[0].staged_at) if waiting else None,
    )


# The fleet


def fleet(statement: Statement, *, workers: int, tasks: Sequence[str] | None) -> Fleet:
    """Answer who works and what is scheduled."""
    rows = statement.rows(statement.tables.workers)
    rows = sorted(sorted(rows, key=lambda row: row.id), key=lambda row: row.beat_at, reverse=True)
    return Fleet(
        now=statement.now.astimezone(UTC),
        leader=None if tasks is None else _leader(statement),
        tasks=[] if tasks is None else _tasks(statement, tasks),
        workers=[_worker(statement, row) for row in rows[:workers]],
    )


def _leader(statement: Statement) -> dict[str, Any] | None:
    row = statement.get(statement.tables.leader, 1)
    if row is None or row.expires_at <= statement.now:
        return None
    return {
        "holder": row.holder,
        "since": _iso(row.since),
        "expires_at": _iso(row.expires_at),
    }


def _tasks(statement: Statement, named: Sequence[str]) -> list[dict[str, Any]]:
    states = {row.name: row for row in statement.rows(statement.tables.tasks)}
    pauses = {
        row.name: row for row in statement.rows(statement.tables.pauses) if row.kind == "task"
    }
    known = sorted({*states, *pauses}, key=lambda name: (name not in named, name))
    found: list[dict[str, Any]] = []
    for name in sorted(known[:MOST_TASKS]):
        state, pause = states.get(name), pauses.get(name)
        found.append({"name": name, **_state(state), **_pause(pause)})
    return found


def _state(row: TaskRow | None) -> dict[str, Any]:
    if row is None:
        return {"rule": None, "last_fired": None, "fired_at": None}
    return {
        "rule": row.rule,
        "last_fired": _iso(row.last_fired),
        "fired_at": _iso(row.fired_at),
    }


def _pause(row: PauseRow | None) -> dict[str, Any]:
    if row is None:
        return {"paused_at": None, "paused_by": None, "pause_reason": None}
    return {
        "paused_at": _iso(row.paused_at),
        "paused_by": row.paused_by,
        "pause_reason": row.reason,
    }


def _worker(statement: Statement, row: WorkerRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "host": row.host,
        "pid": row.pid,
        "state": row.state,
        "queues": list(row.queues),
        "concurrency": row.concurrency,
        "running": [str(job) for job in row.running],
        "alive": row.expires_at > statement.now,
        "started_at": _iso(row.started_at),
        "beat_at": _iso(row.beat_at),
        "expires_at": _iso(row.expires_at),
    }


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.astimezone(UTC).isoformat()


# What nobody takes


def stranded(statement: Statement, patience: timedelta, window: int) -> list[Stranded]:
    """Find due jobs that no living worker can take."""
    workers = statement.rows(statement.tables.workers)
    living = [row for row in workers if row.expires_at > statement.now]
    queued: dict[str, list[JobRow]] = {}
    for row in statement.rows(statement.tables.jobs):
        if row.is_waiting and not row.blocked:
            queued.setdefault(row.queue, []).append(row)
    found: list[Stranded] = []
    for queue in sorted(queued):
        if rules.is_paused(statement, "queue", queue):
            continue
        overdue, capped = _overdue(statement.now - patience, window, queued[queue])
        for name in sorted({row.name for row in overdue}):
            why = _why(living, queue, name)
            if why is not None:
                ours = [row.run_at for row in overdue if row.name == name]
                found.append(
                    Stranded(
                        queue=queue,
                        name=name,
                        count=len(ours),
                        capped=capped,
                        oldest_seconds=(statement.now - min(ours)).total_seconds(),
                        why=why,
                    )
                )
    return found


def _overdue(before: datetime, window: int, rows: list[JobRow]) -> tuple[list[JobRow], bool]:
    """Answer the oldest of each priority, an equal share of the window each."""
    levels = {row.priority for row in rows}
    share = max(window // len(levels), 1)
    found: list[JobRow] = []
    capped = False
    for level in levels:
        late = [row for row in rows if row.priority == level and row.run_at < before]
        found += sorted(late, key=lambda row: (row.run_at, row.id))[:share]
        capped = capped or len(late) >= share
    return found, capped


def _why(living: Sequence[WorkerRow], queue: str, name: str) -> str | None:
    """Say why no living worker takes a job; ``None``: one does."""
    serving = [row for row in living if queue in row.queues]
    if any(name in row.jobs for row in serving):
        return None
    if not living:
        return "no worker lives"
    return "no worker knows it" if serving else "no worker serves its queue"
