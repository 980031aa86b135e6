"""What a task may say beyond Django's own options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ultimate_jobs.core.durations import Duration
from ultimate_jobs.core.spec import Concurrency
from ultimate_jobs.tasks.framework import Task, TaskResult

if TYPE_CHECKING:
    _Task = Task[..., Any]
else:
    _Task = Task

F = TypeVar("F", bound=Callable[..., Any])
BackoffFunction = Callable[[BaseException, "TaskResult[..., Any]"], "float | timedelta | None"]
"""Answers how long to wait after an attempt that failed; ``None``: it is not tried again."""

_ATTRIBUTE = "_ultimate_jobs_options"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Options of a task; ``None`` is not said.

    Attributes:
        max_attempts: starts in all; 1 by default, as in Django.
        backoff: the wait between two of them: a length of time, ``exponential``, ``linear`` or
            ``fixed``, or a function of the exception and the task's result.
        timeout: the ceiling of one attempt.
        unique: ``True``: while a call waits or runs, the same call answers with its result and
            enqueues nothing. A function of the arguments answers the text that must be the same.
        concurrency: most simultaneous runs in the fleet, or of one key of the arguments.

    """

    max_attempts: int | None = None
    backoff: str | Duration | BackoffFunction | None = None
    timeout: Duration | None = None
    unique: bool | Callable[..., str] | None = None
    concurrency: int | Concurrency[Any] | None = None

    def over(self, others: TaskOptions) -> TaskOptions:
        """Answer these options, and where they say nothing those others."""
        return replace(others, **self.said())

    def said(self) -> dict[str, Any]:
        """Answer the options that are said."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value is not None}


NAMES = tuple(field.name for field in fields(TaskOptions))


def task_options(
    *,
    max_attempts: int | None = None,
    backoff: str | Duration | BackoffFunction | None = None,
    timeout: Duration | None = None,
    unique: bool | Callable[..., str] | None = None,
    concurrency: int | Concurrency[Any] | None = None,
) -> Callable[[F], F]:
    """Say options of a task on its function, below ``@task``; other backends do not see them.

    Args: as ``TaskOptions``.

    """
    options = TaskOptions(
        max_attempts=max_attempts,
        backoff=backoff,
        timeout=timeout,
        unique=unique,
        concurrency=concurrency,
    )

    def keep(function: F) -> F:
        setattr(function, _ATTRIBUTE, options)
        return function

    return keep


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsTask(_Task):
    """A task with the options of ``TaskOptions``: ``@task(max_attempts=3, timeout="30s")``.

    Django hands these on from version 6.1; ``task_options`` says them in every version.
    """

    max_attempts: int | None = None
    backoff: str | Duration | BackoffFunction | None = None
    timeout: Duration | None = None
    unique: bool | Callable[..., str] | None = None
    concurrency: int | Concurrency[Any] | None = None

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        max_attempts: int | None = None,
        unique: bool | Callable[..., str] | None = None,
    ) -> Self:
        """Answer the task with other options for one enqueue; ``None`` leaves one as it is.

        The other options belong to the function: whoever runs it knows nothing of the enqueue.
        """
        changes: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": run_after,
            "backend": backend,
            "max_attempts": max_attempts,
            "unique": unique,
        }
        return replace(self, **{name: new for name, new in changes.items() if new is not None})


def options_of(task: Task[..., Any], defaults: Mapping[str, Any]) -> TaskOptions:
    """Answer what a task says, on itself, on its function, or by ``defaults`` of its backend."""
    on_task = TaskOptions(**{name: getattr(task, name, None) for name in NAMES})
    on_function: TaskOptions = getattr(task.func, _ATTRIBUTE, TaskOptions())
    by_default = TaskOptions(max_attempts=defaults.get("max_attempts"))
    return on_task.over(on_function).over(by_default)
