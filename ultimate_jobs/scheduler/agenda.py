"""What is due, and when the next is: kept in memory, read once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ultimate_jobs.core import catchup
from ultimate_jobs.core.dispatch import ArmedTask
from ultimate_jobs.definitions.task import Task
from ultimate_jobs.drivers.base import Schedule
from ultimate_jobs.process.idle import Backoff

MOST_REST = 60.0
"""Seconds after which a task that fails is tried again at the latest."""


@dataclass(slots=True)
class Entry:
    """How far a task has come, and its first occurrence after that."""

    task: Task
    watermark: datetime
    next: datetime
    rests_until: datetime | None = None
    _backoff: Backoff = field(default_factory=lambda: Backoff(most=MOST_REST))

    def moved_to(self, watermark: datetime) -> None:
        """Go on behind a watermark that was written."""
        self.watermark = watermark
        self.next = self.task.schedule.next_after(watermark)
        self.rests_until = None
        self._backoff.worked()

    def failed(self, now: datetime) -> float:
        """Leave the task alone for a while; answer for how many seconds."""
        wait = self._backoff.failed()
        self.rests_until = now + timedelta(seconds=wait)
        return wait

    @property
    def due_at(self) -> datetime:
        """When the task is to be looked at."""
        return max(self.next, self.rests_until) if self.rests_until else self.next


class Agenda:
    """The entries of all tasks that have one."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = list(entries)

    @classmethod
    def load(
        cls,
        schedule: Schedule,
        tasks: Iterable[Task],
        now: datetime,
        failed: Callable[[Task, Exception], None],
    ) -> Agenda:
        """Read how far every task has come; one that is new starts with its next occurrence.

        A task without any occurrence ahead is left out, and told to ``failed``.
        """
        known = {task.name: task for task in tasks}
        armed: list[ArmedTask] = []
        for task in known.values():
            try:
                start = catchup.arm(task.schedule, now)
            except Exception as error:  # noqa: BLE001 - an error in one task stays with that task
                failed(task, error)
            else:
                armed.append(ArmedTask(task.name, rule_of(task), start))
        if not armed:
            return cls(())
        entries: list[Entry] = []
        for name, watermark in schedule.watermarks(armed).items():
            try:
                following = known[name].schedule.next_after(watermark)
            except Exception as error:  # noqa: BLE001 - the same
                failed(known[name], error)
            else:
                entries.append(Entry(known[name], watermark, following))
        return cls(entries)

    def due(self, now: datetime, paused: Collection[str]) -> list[Entry]:
        """Answer what is due, the earliest first."""
        due = [e for e in self.entries if e.due_at <= now and e.task.name not in paused]
        return sorted(due, key=lambda entry: (entry.next, entry.task.name))

    def next_after(self, paused: Collection[str]) -> datetime | None:
        """Answer when something is due next."""
        return min((e.due_at for e in self.entries if e.task.name not in paused), default=None)


def rule_of(task: Task) -> str:
    """Spell the rule that a task's watermark belongs to."""
    return f"{task.schedule.expression} {task.schedule.zone}"
