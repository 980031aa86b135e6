"""Every declared job and every declared task, by its durable name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from ultimate_jobs.errors import DeclarationInvalid, JobDuplicate, JobsError

if TYPE_CHECKING:
    from ultimate_jobs.definitions.job import Job
    from ultimate_jobs.definitions.task import Task


class Declared(Protocol):
    """What has a durable name."""

    @property
    def name(self) -> str:
        """The durable name."""


D = TypeVar("D", bound=Declared)


class Declarations(ABC, Generic[D]):
    """Names and the declarations that have them."""

    what: ClassVar[str]

    def __init__(self) -> None:
        self._declared: dict[str, D] = {}

    def add(self, declared: D) -> None:
        """Register a declaration; the same one again changes nothing.

        Raises:
            JobDuplicate: another one has this name.

        """
        holder = self._declared.setdefault(declared.name, declared)
        if holder is declared:
            return
        before, now = self._function(holder), self._function(declared)
        if not _is_read_again(before, now):
            raise JobDuplicate(
                f"Two {self.what} are named '{declared.name}': one in {before.__module__}, one in "
                f"{now.__module__}.",
                fix="Give one of the two another name with name=...",
            )
        self._declared[declared.name] = declared

    def get(self, name: str) -> D | None:
        """Answer the declaration of a name, if it is known here."""
        return self._declared.get(name)

    def names(self) -> list[str]:
        """Answer every name, by code points."""
        return sorted(self._declared)

    def __iter__(self) -> Iterator[D]:
        """Iterate over the declarations, by name."""
        return iter([self._declared[name] for name in self.names()])

    def __len__(self) -> int:
        return len(self._declared)

    def discard(self, declared: D) -> None:
        """Forget a declaration; for tests that declare their own."""
        if self._declared.get(declared.name) is declared:
            del self._declared[declared.name]

    @abstractmethod
    def _function(self, declared: D) -> Callable[..., Any]:
        """Answer the function that a declaration was made over."""


class Registry(Declarations["Job[Any, Any]"]):
    """Every job."""

    what = "jobs"

    def _function(self, declared: Job[Any, Any]) -> Callable[..., Any]:
        return declared.spec.body


class TaskRegistry(Declarations["Task"]):
    """Every task."""

    what = "tasks"

    def _function(self, declared: Task) -> Callable[..., Any]:
        return declared.function


def _is_read_again(before: Callable[..., Any], now: Callable[..., Any]) -> bool:
    """Answer whether a module whose import had failed is being imported once more."""
    old, new = getattr(before, "__globals__", None), getattr(now, "__globals__", None)
    return old is not new and _place(before) == _place(now)


def _place(function: Callable[..., Any]) -> tuple[object, object]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)


def default_name(decorator: str, function: Any) -> str:
    """Name a declaration after the app that contains the function, and the function.

    Raises:
        DeclarationInvalid: the function has no name.

    """
    name = getattr(function, "__name__", "<lambda>")
    module = getattr(function, "__module__", None)
    if name == "<lambda>" or not isinstance(name, str) or not isinstance(module, str):
        raise DeclarationInvalid(
            f"{decorator} has a function without a name.",
            fix="Write the function with def, or pass name=.",
        )
    app = apps.get_containing_app_config(module) if apps.apps_ready else None
    return f"{app.label if app else module}.{name}"


registry = Registry()
tasks = TaskRegistry()
refused: list[JobsError] = []
"""Declarations that discovery could not accept; ``manage.py check`` reports each."""


def autodiscover() -> None:
    """Import the ``jobs`` module of every installed app.

    A refused declaration is kept for the system checks, so that all are listed at once and every
    command that checks refuses to start; code that imports the module meets the error itself.
    """
    refused.clear()
    for config in apps.get_app_configs():
        if config.module is None or not module_has_submodule(config.module, "jobs"):
            continue
        try:
            import_module(f"{config.name}.jobs")
        except JobsError as error:
            error.meta["module"] = f"{config.name}.jobs"
            refused.append(error)
