"""Jobs that an operator looks for, newest first, looking at no more rows than the window has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from ultimate_jobs.core.selection import UNSUCCESSFUL, Chosen, Look, Place, Selection
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.memory.rows import JobRow
from ultimate_jobs.drivers.memory.store import Statement

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
Instant = tuple[datetime, UUID]


def choose(statement: Statement, selection: Selection, look: Look) -> Chosen:
    """Find jobs that meet a selection."""
    cursor = None if look.cursor is None else statement.get(statement.tables.jobs, look.cursor.id)
    within = _Range(statement, selection, look, cursor)
    seen = _SOURCES[look.source](statement, selection, look, within)
    matching = [row for row in seen if _meets(row, selection) and within.has(row)]
    nearest = sorted(matching, key=_age, reverse=not look.backwards)[: look.limit]
    last = (max if look.backwards else min)(seen, key=_age, default=None)
    return Chosen(
        places=tuple(_place(row) for row in sorted(nearest, key=_age, reverse=True)),
        seen=len(seen),
        last=None if last is None else _place(last),
        cursor_fits=None if cursor is None else _is_asked_for(cursor, selection),
    )


class _Range:
    """Which jobs are meant by their age."""

    def __init__(
        self, statement: Statement, selection: Selection, look: Look, cursor: JobRow | None
    ) -> None:
        self._edge = None if look.cursor is None else _edge(look.cursor, cursor)
        self._backwards = look.backwards
        self._until = _before(statement.now, selection.older_than)
        self._since = _before(statement.now, selection.newer_than)

    def has(self, row: JobRow) -> bool:
        """Answer whether a row is in it."""
        if self._until is not None and row.created_at > self._until:
            return False
        if self._since is not None and row.created_at < self._since:
            return False
        if self._edge is None:
            return True
        return _age(row) > self._edge if self._backwards else _age(row) < self._edge


def _edge(given: Place, row: JobRow | None) -> Instant | None:
    if row is not None:
        return row.created_at, given.id
    return None if given.instant is None else (_EPOCH + given.instant * _MICROSECOND, given.id)


def _before(now: datetime, span: timedelta | None) -> datetime | None:
    return None if span is None else now - span


def _age(row: JobRow) -> Instant:
    return row.created_at, row.id


def _place(row: JobRow) -> Place:
    return Place(row.id, (row.created_at - _EPOCH) // _MICROSECOND)


def _meets(row: JobRow, selection: Selection) -> bool:
    if selection.states and row.state not in selection.states:
        return False
    if selection.error_like is not None and (
        row.last_error is None or selection.error_like.lower() not in row.last_error.lower()
    ):
        return False
    return _is_asked_for(row, selection)


def _is_asked_for(row: JobRow, selection: Selection) -> bool:
    asked = (
        (selection.queue, row.queue),
        (selection.name, row.name),
        (selection.tenant, row.tenant_id),
        (selection.key, row.idempotency_key),
        (selection.related, (row.related_type_id, row.related_id)),
    )
    return all(wanted is None or wanted == has for wanted, has in asked)


# Sources


def _in_age(rows: Iterable[JobRow], look: Look, within: _Range) -> list[JobRow]:
    meant = (row for row in rows if within.has(row))
    return sorted(meant, key=_age, reverse=not look.backwards)[: look.window]


def _created(
    statement: Statement, selection: Selection, look: Look, within: _Range
) -> list[JobRow]:
    return _in_age(statement.rows(statement.tables.jobs), look, within)


def _ended(statement: Statement, selection: Selection, look: Look, within: _Range) -> list[JobRow]:
    rows = (row for row in statement.rows(statement.tables.jobs) if row.state in UNSUCCESSFUL)
    return _in_age(rows, look, within)


def _live(statement: Statement, selection: Selection, look: Look, within: _Range) -> list[JobRow]:
    rows = statement.rows(statement.tables.jobs)
    found: list[JobRow] = []
    if selection.waiting:
        waiting = [row for row in rows if row.is_waiting and selection.queue in (None, row.queue)]
        free = [row for row in waiting if not row.blocked]
        order: Callable[[JobRow], Any] = lambda row: (row.queue, -row.priority, row.run_at, row.id)  # noqa: E731
        found += sorted(free, key=order)[: look.window]
        standing_by = [row for row in waiting if row.blocked]
        found += sorted(standing_by, key=lambda row: (row.queue, row.run_at))[: look.window]
    if selection.running:
        running = [row for row in rows if row.state == JobState.RUNNING]
        found += sorted(running, key=lambda row: (row.claimed_by, row.visible_at))[: look.window]
    return found


def _of_a_key(
    statement: Statement, selection: Selection, look: Look, within: _Range
) -> list[JobRow]:
    rows = [
        row for row in statement.rows(statement.tables.jobs) if row.idempotency_key == selection.key
    ]
    live = [row for row in rows if row.is_live]
    ended = [row for row in rows if not row.is_live]
    return live[: look.window] + ended[: look.window]


def _related(
    statement: Statement, selection: Selection, look: Look, within: _Range
) -> list[JobRow]:
    rows = statement.rows(statement.tables.jobs)
    about = [row for row in rows if (row.related_type_id, row.related_id) == selection.related]
    return about[: look.window]


def _given(statement: Statement, selection: Selection, look: Look, within: _Range) -> list[JobRow]:
    rows = (statement.get(statement.tables.jobs, job) for job in dict.fromkeys(selection.ids))
    return [row for row in rows if row is not None][: look.window]


_Source = Callable[[Statement, Selection, Look, _Range], list[JobRow]]
_SOURCES: dict[str, _Source] = {
    "created": _created,
    "ended": _ended,
    "live": _live,
    "key": _of_a_key,
    "related": _related,
    "ids": _given,
}
