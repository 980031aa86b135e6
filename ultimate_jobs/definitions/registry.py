"""Every declared job, by its durable name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from ultimate_jobs.errors import JobDuplicate, JobsError

if TYPE_CHECKING:
    from ultimate_jobs.definitions.job import Job


class Registry:
    """Names and the jobs that have them."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job[Any, Any]] = {}

    def add(self, job: Job[Any, Any]) -> None:
        """Register a job; the same one again changes nothing.

        Raises:
            JobDuplicate: another job has this name.

        """
        holder = self._jobs.setdefault(job.name, job)
        if holder is not job and _is_read_again(holder, job):
            self._jobs[job.name] = job
        elif holder is not job:
            raise JobDuplicate(
                f"Two jobs are named '{job.name}': one in {holder.spec.body.__module__}, one in "
                f"{job.spec.body.__module__}."
            )

    def get(self, name: str) -> Job[Any, Any] | None:
        """Answer the job of a name, if it is known here."""
        return self._jobs.get(name)

    def names(self) -> list[str]:
        """Answer every name, by code points."""
        return sorted(self._jobs)

    def __iter__(self) -> Iterator[Job[Any, Any]]:
        """Iterate over the jobs, by name."""
        return iter([self._jobs[name] for name in self.names()])

    def __len__(self) -> int:
        return len(self._jobs)

    def discard(self, job: Job[Any, Any]) -> None:
        """Forget a job; for tests that declare their own."""
        if self._jobs.get(job.name) is job:
            del self._jobs[job.name]


def _is_read_again(before: Job[Any, Any], now: Job[Any, Any]) -> bool:
    """Answer whether a module whose import had failed is being imported once more."""
    old, new = before.spec.body, now.spec.body
    same = (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)
    return same and old.__globals__ is not new.__globals__


registry = Registry()
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
