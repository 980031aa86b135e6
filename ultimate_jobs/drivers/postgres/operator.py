"""What an operator sees of jobs and does to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from ultimate_jobs.core.jsonform import loads
from ultimate_jobs.core.records import Backlog, Fleet, QueueDepth, Requeue, Stranded
from ultimate_jobs.core.selection import Chosen, Look, Moved, Place, Selection
from ultimate_jobs.core.states import state_of
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database

_MOST_QUEUES = 1_000
"""More queues than anybody has; a bound all the same."""
_MOST_TASKS = 1_000


class PostgresOperator:
    """Verbs over ``x_jobs`` and its steps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cancel(self, job: UUID, reason: str | None) -> bool:
        """Cancel a live job."""
        params = {"job_id": job, "reason": reason}
        return bool(self._database.rows(sql.CANCEL, params))

    def requeue(self, job: UUID, from_step: str | None) -> Requeue:
        """Make a finished job due now."""
        params = {"job_id": job, "from_step": from_step}
        try:
            rows = self._database.transact(lambda: self._database.rows(sql.REQUEUE, params))
        except IntegrityError:
            # A job with the same key was enqueued meanwhile; a second look names it.
            rows = self._database.transact(lambda: self._database.rows(sql.REQUEUE, params))
        if not rows:
            return Requeue(moved=False)
        ((state, moved, holder, steps, undone, _),) = rows
        return Requeue(
            moved=bool(moved),
            state=state_of(state),
            holder=holder,
            step_known=bool(steps),
            undone=bool(undone),
        )

    def resolve_step(self, job: UUID, step: str, *, ran: bool, output: str | None) -> bool:
        """Say how a step in doubt ended."""
        ((_, resolved),) = self._database.rows(
            sql.STEP_RESOLVE,
            {"job_id": job, "name": step, "ran": ran, "output": output},
        )
        return bool(resolved)

    def choose(self, selection: Selection, look: Look) -> Chosen:
        """Find jobs that meet a selection."""
        related_type, related_id = selection.related or (None, None)
        params = {
            "source": look.source,
            "limit": look.limit,
            "window": look.window,
            "cursor": None if look.cursor is None else look.cursor.id,
            "cursor_at": None if look.cursor is None else look.cursor.instant,
            "backwards": look.backwards,
            "ids": list(selection.ids),
            "states": list(selection.states) or None,
            "waiting": selection.waiting,
            "running": selection.running,
            "queue": selection.queue,
            "name": selection.name,
            "tenant": selection.tenant,
            "key": selection.key,
            "related_type": related_type,
            "related_id": related_id,
            "error_like": None if selection.error_like is None else _within(selection.error_like),
            "older_than": selection.older_than,
            "newer_than": selection.newer_than,
        }
        ((ids, instants, seen, last, at, fits),) = self._database.rows(sql.CHOOSE, params)
        return Chosen(
            places=tuple(map(Place, ids, instants)),
            seen=seen,
            last=None if last is None else Place(last, at),
            cursor_fits=fits,
        )

    def requeue_many(self, jobs: Sequence[UUID], limit: int) -> Moved:
        """Make finished jobs due now."""

        def requeue() -> Moved:
            return self._database.transact(lambda: self._move(sql.REQUEUE_MANY, jobs, limit))

        try:
            return requeue()
        except IntegrityError:
            # A job with one of the keys was enqueued meanwhile; a second look leaves that one out.
            return requeue()

    def cancel_many(self, jobs: Sequence[UUID], limit: int, reason: str | None) -> Moved:
        """Cancel live jobs."""
        return self._move(sql.CANCEL_MANY, jobs, limit, reason=reason)

    def promote_many(self, jobs: Sequence[UUID], limit: int) -> Moved:
        """Make jobs due now that wait for their time."""
        return self._move(sql.PROMOTE_MANY, jobs, limit)

    def remove_many(self, jobs: Sequence[UUID], limit: int) -> Moved:
        """Remove jobs that do not run, with their steps."""
        return self._move(sql.REMOVE_MANY, jobs, limit)

    def pause(self, kind: str, name: str, *, by: str | None, reason: str | None) -> bool:
        """Pause a queue or a task."""
        params = {"kind": kind, "name": name, "by": by, "reason": reason}
        return bool(self._database.rows(sql.PAUSE, params))

    def resume(self, kind: str, name: str) -> bool:
        """Resume a queue or a task."""
        return bool(self._database.rows(sql.RESUME, {"kind": kind, "name": name}))

    def queues(self, cap: int) -> list[QueueDepth]:
        """Count what the queues hold."""
        params = {"cap": cap, "most_queues": _MOST_QUEUES}
        columns = [field.name for field in fields(QueueDepth)]
        return [
            QueueDepth(**dict(zip(columns, row, strict=True)))
            for row in self._database.rows(sql.QUEUES, params)
        ]

    def demand(self, cap: int) -> Mapping[str, int]:
        """Count what could keep workers busy."""
        params = {"cap": cap, "most_queues": _MOST_QUEUES}
        return {row[0]: row[1] for row in self._database.rows(sql.DEMAND, params)}

    def backlog(self, cap: int) -> Backlog:
        """Count what the outbox holds."""
        ((waiting, refused, oldest),) = self._database.rows(sql.BACKLOG, {"cap": cap})
        return Backlog(waiting=waiting, refused=refused, oldest_seconds=oldest if waiting else None)

    def fleet(self, *, workers: int, tasks: Sequence[str] | None) -> Fleet:
        """Answer who works and what is scheduled."""
        params = {
            "tasks": None if tasks is None else list(tasks),
            "most_tasks": _MOST_TASKS,
            "most_workers": workers,
        }
        found: dict[str, list[Any]] = {}
        for kind, _, document in self._database.rows(sql.FLEET, params):
            found.setdefault(kind, []).append(loads(document))
        (now,) = found["clock"]
        return Fleet(
            now=datetime.fromisoformat(now),
            leader=next(iter(found.get("leader", ())), None),
            tasks=found.get("task", []),
            workers=found.get("worker", []),
        )

    def stranded(self, patience: timedelta, window: int) -> list[Stranded]:
        """Find due jobs that no living worker can take."""
        params = {
            "patience": patience,
            "window": window,
            "most_queues": _MOST_QUEUES,
        }
        columns = [field.name for field in fields(Stranded)]
        return [
            Stranded(**dict(zip(columns, row, strict=True)))
            for row in self._database.rows(sql.STRANDED, params)
        ]

    def statements(self) -> Mapping[str, str]:
        """Answer the text of every statement by its name."""
        return sql.by_name()

    def _move(self, statement: str, jobs: Sequence[UUID], limit: int, **more: object) -> Moved:
        params = {"ids": list(jobs), "limit": limit, **more}
        ((moved, able, *_),) = self._database.rows(statement, params)
        return Moved(jobs=tuple(moved), remaining=max(able - len(moved), 0))


def _within(text: str) -> str:
    """Make a pattern that finds a text anywhere, whatever characters it has."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
