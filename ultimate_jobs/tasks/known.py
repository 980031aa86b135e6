"""The tasks that this process knows, by the dotted path of their function."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ultimate_jobs.definitions.job import Job
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.tasks.calls import TaskCall
from ultimate_jobs.tasks.framework import Task
from ultimate_jobs.tasks.options import TaskOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A task as it was first declared over its function, and the job that runs it.

    ``late``: it was declared after Django was ready, so not every process is sure to know it.
    """

    task: Task[..., Any]
    options: TaskOptions
    job: Job[TaskCall, Any]
    late: bool


_declared: dict[str, Declared] = {}


def remember(declared: Declared) -> None:
    """Know a task, instead of another one with its path.

    Raises:
        JobDuplicate: a job has this name.

    """
    path = declared.task.module_path
    if path in _declared:
        registry.discard(_declared[path].job)
    registry.add(declared.job)
    _declared[path] = declared


def forget(declared: Declared) -> None:
    """Know a task no longer; for tests that declare their own."""
    registry.discard(declared.job)
    _declared.pop(declared.task.module_path, None)


def known_as(path: str) -> Declared | None:
    """Answer the task of a path, if this process knows it."""
    return _declared.get(path)


def found_as(path: str) -> Declared | None:
    """Answer the task of a path, importing its module if need be; ``None``: there is none."""
    if path not in _declared:
        try:
            import_module(path.rpartition(".")[0])
        except (ImportError, ValueError):
            return None
    return _declared.get(path)


def all_known() -> list[Declared]:
    """Answer every task, by path."""
    return [_declared[path] for path in sorted(_declared)]
