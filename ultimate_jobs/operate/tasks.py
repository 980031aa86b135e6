"""What operators see of tasks and do to them, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import QuerySet

from ultimate_jobs.conf import get_settings
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.definitions.task import Task
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import PageInvalid, TaskUnknown
from ultimate_jobs.models import Pause, TaskState
from ultimate_jobs.operate.inspection import aware
from ultimate_jobs.operate.pauses import pause, resume
from ultimate_jobs.operate.verbs import Act

TASK = Pause.Kind.TASK.value
MAX_TASK_FIRES = 1_000
DEFAULT_UPCOMING = 5
MAX_UPCOMING = 50


def list_tasks() -> list[dict[str, Any]]:
    """Answer every task of this process, by name, with its last fire and its next."""
    return _documents(tasks, upcoming=None)


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
    (document,) = _documents([known_task(name)], upcoming=count)
    return document


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
    fired = _states().exclude(last_fired=None).order_by("name")[:MAX_TASK_FIRES]
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


def _documents(wanted: Iterable[Task], *, upcoming: int | None) -> list[dict[str, Any]]:
    now = get_driver().retention.clock()
    states = {state.name: state for state in _states()}
    paused = Pause.objects.using(get_settings().database).filter(kind=TASK)
    pauses = {row.name: row for row in paused}
    return [
        _document(task, states.get(task.name), pauses.get(task.name), now, upcoming)
        for task in wanted
    ]


def _states() -> QuerySet[TaskState]:
    return TaskState.objects.using(get_settings().database)


def _document(
    task: Task, state: TaskState | None, pause: Pause | None, now: datetime, upcoming: int | None
) -> dict[str, Any]:
    zone = ZoneInfo(task.schedule.zone)
    document: dict[str, Any] = {
        **task.describe(),
        "paused": pause is not None,
        "paused_at": _local(pause.paused_at if pause else None, zone),
        "pause_reason": pause.reason if pause else None,
        "last_occurrence": _local(state.last_fired if state else None, zone),
        "fired_at": _local(state.fired_at if state else None, zone),
        "next": _local(task.schedule.next_after(now), zone),
    }
    if upcoming is not None:
        document["upcoming"] = [
            _local(occurrence, zone) for occurrence in islice(_after(task, now), upcoming)
        ]
    return document


def _after(task: Task, instant: datetime) -> Iterable[datetime]:
    while True:
        instant = task.schedule.next_after(instant)
        yield instant


def _local(instant: datetime | None, zone: ZoneInfo) -> str | None:
    if instant is None:
        return None
    return aware(instant).astimezone(zone).isoformat(timespec="seconds")
