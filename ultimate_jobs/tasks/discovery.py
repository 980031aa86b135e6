"""Which modules with tasks every process imports.

A worker claims the jobs that it knows by name. It knows the tasks of the ``tasks`` module of every
installed app, those of the modules that a backend names, and whatever else is imported while Django
starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from ultimate_jobs.tasks import known
from ultimate_jobs.tasks.declared import declare
from ultimate_jobs.tasks.framework import InvalidTask, Task
from ultimate_jobs.tasks.known import Declared
from ultimate_jobs.tasks.options import options_of

unimportable: dict[str, dict[str, str]] = {}
"""By backend: modules of its options that cannot be imported, and why; the system checks tell."""


def autodiscover(backends: Mapping[str, Mapping[str, Any]]) -> None:
    """Import every module with tasks, and know every task in it, whichever backend it names."""
    unimportable.clear()
    for module in _modules(backends):
        for task in list(vars(module).values()):
            if isinstance(task, Task):
                _know(task)


def late(alias: str) -> list[Declared]:
    """Answer the tasks of a backend that not every process is sure to know."""
    return [one for one in known.all_known() if one.late and one.task.backend == alias]


def _modules(backends: Mapping[str, Mapping[str, Any]]) -> Iterator[ModuleType]:
    for config in apps.get_app_configs():
        if config.name == "ultimate_jobs" or config.module is None:
            continue
        if module_has_submodule(config.module, "tasks"):
            yield import_module(f"{config.name}.tasks")
    for alias, backend in backends.items():
        for path in backend.get("OPTIONS", {}).get("modules", ()):
            try:
                yield import_module(path)
            except ImportError as error:
                unimportable.setdefault(alias, {})[str(path)] = str(error)


def _know(task: Task[..., Any]) -> None:
    """Know a task that stands in a module for another backend: it can be enqueued with ours."""
    if known.known_as(task.module_path) is None:
        try:
            declare(task, options_of(task, {}))
        except InvalidTask:
            return  # its own backend takes it; an enqueue with ours says why it does not
