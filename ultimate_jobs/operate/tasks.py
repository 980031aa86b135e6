"""What operators see of tasks and do to them, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from itertools import islice
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.records import Fleet
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.definitions.task import Task
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import PageInvalid, TaskUnknown
from ultimate_jobs.models import Pause, TaskState
from ultimate_jobs.operate.pauses import pause, resume
from ultimate_jobs.operate.verbs import Act

TASK = Pause.Kind.TASK.value
MAX_TASK_FIRES = 1_000
DEFAULT_UPCOMING = 5
MAX_UPCOMING = 50


def list_tasks() -> list[dict[str, Any]]:
    """Answer every task of this process, by name, with its last fire and its next."""
    read, rows = _read()
    return [_document(task, rows.get(task.name, _NO_ROW), read.now) for task in tasks]


def show_task(name: str, count: int = DEFAULT_UPCOMING) -> dict[str, Any]:
    """Answer one task, with its next ``count`` occurrences.

    Raises:
        TaskUnknown: no such task.
        PageInvalid: more than 50 occurrences, or none.

    """
    if not 1 <= count <= MAX_UPCOMING:
        raise PageInvalid(
            f"Between 1 and {MAX_UPCOMING} occurrences are shown.",
            fix=f"Pass --count from 1 to {MAX_UPCOMING}.",
        )
    task = known_task(name)
    read, rows = _read()
    zone = ZoneInfo(task.schedule.zone)
    return {
        **_document(task, rows.get(name, _NO_ROW), read.now),
        "upcoming": [_written(at, zone) for at in islice(_after(task, read.now), count)],
    }


def schedule(fleet: Fleet | None = None) -> dict[str, Any]:
    """Answer who leads, and how every task stands; no function of a task is called.

    ``leader`` is ``None`` while no scheduler leads. ``tasks`` are those of this process, by name.
    ``undeclared`` are those that only rows tell of, at most 1,000: another process declares them, or
    none does any more.

    Args:
        fleet: what has been read with the names of this process's tasks; by default it is read, in
            one statement.

    """
    read, rows = _read(fleet)
    return {
        "leader": _leader(read.leader),
        "tasks": [
            {**_declared(task), **_standing(task, rows.get(task.name, _NO_ROW), read.now)}
            for task in tasks
        ],
        "undeclared": [_undeclared(row) for name, row in rows.items() if tasks.get(name) is None],
    }


def fire_task(name: str) -> list[dict[str, Any]]:
    """Enqueue what a task would enqueue now, under the jobs' own keys; answer the jobs.

    It is no occurrence: the schedule goes on as if nothing had happened, also while it is paused.

    Raises:
        TaskUnknown: no such task.
        RefusedError: one of the jobs was refused.

    """
    answers = known_task(name).enqueue()
    return [{"id": str(a.id), "run_id": str(a.run_id), "deduped": a.deduped} for a in answers]


def pause_task(name: str, reason: str | None = None, *, by: str | None = None) -> Act:
    """Fire a task no more until it is resumed; ``changed`` in the details says whether it was fired.

    Its watermark stays: what its ``catch_up`` says of missed occurrences is done on resume.

    Raises:
        TaskUnknown: no such task.

    """
    return pause(TASK, known_task(name).name, by=by, reason=reason)


def resume_task(name: str, *, by: str | None = None) -> Act:
    """Let a paused task go on; ``changed`` in the details says whether it was paused.

    Raises:
        TaskUnknown: no such task.

    """
    return resume(TASK, known_task(name).name, by=by)


def task_fires() -> list[dict[str, Any]]:
    """Answer, for at most 1,000 tasks, the last occurrence that queued its jobs."""
    states = TaskState.objects.using(get_settings().database)
    fired = states.exclude(last_fired=None).order_by("name")[:MAX_TASK_FIRES]
    return [
        {"task": state.name, "occurrence": state.last_fired, "fired_at": state.fired_at}
        for state in fired
    ]


def next_run(name: str, after: datetime) -> datetime:
    """Answer the first occurrence of a task later than an instant; no scheduler need run.

    Raises:
        TaskUnknown: no such task.

    """
    return known_task(name).schedule.next_after(after)


def known_task(name: str) -> Task:
    """Answer a task of this process.

    Raises:
        TaskUnknown: no such task.

    """
    found = tasks.get(name)
    if found is None:
        raise TaskUnknown("No task has this name.")
    return found


_NO_ROW: Mapping[str, Any] = MappingProxyType({})


def _read(fleet: Fleet | None = None) -> tuple[Fleet, Mapping[str, Mapping[str, Any]]]:
    """Answer what is known of the schedule, and the rows of tasks by their names."""
    read = fleet or get_driver().operator.fleet(workers=0, tasks=tasks.names())
    return read, {row["name"]: row for row in read.tasks}


def _document(task: Task, row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    return {**task.describe(), **_standing(task, row, now)}


def _declared(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "cron": task.cron,
        "tz": task.tz,
        "catch_up": task.catch_up,
        "max_catch_up": task.max_catch_up,
    }


def _standing(task: Task, row: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    zone = ZoneInfo(task.schedule.zone)
    return {**_come(row, zone), "next": _written(task.schedule.next_after(now), zone)}


def _come(row: Mapping[str, Any], zone: tzinfo) -> dict[str, Any]:
    """Answer how far a task has come, and its pause."""
    return {
        "paused": row.get("paused_at") is not None,
        "paused_at": _stored(row.get("paused_at"), zone),
        "paused_by": row.get("paused_by"),
        "pause_reason": row.get("pause_reason"),
        "last_occurrence": _stored(row.get("last_fired"), zone),
        "fired_at": _stored(row.get("fired_at"), zone),
    }


def _undeclared(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": row["name"], "rule": row["rule"], **_come(row, UTC)}


def _leader(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    instants = {name: _stored(row[name], UTC) for name in ("since", "expires_at")}
    return {"holder": row["holder"], **instants}


def _after(task: Task, instant: datetime) -> Iterable[datetime]:
    while True:
        instant = task.schedule.next_after(instant)
        yield instant


def _stored(text: str | None, zone: tzinfo) -> str | None:
    return None if text is None else _written(datetime.fromisoformat(text), zone)


def _written(instant: datetime, zone: tzinfo) -> str:
    """Write an aware instant by the clock of a zone, to the second."""
    return instant.astimezone(zone).isoformat(timespec="seconds")
