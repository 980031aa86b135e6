"""The backend for ``django.tasks``: any app's ``@task`` as a job of this package.

``JobsBackend`` is what ``TASKS`` names. ``framework`` is Django's side of the seam (the backport's
on Django 5.2), ``options`` what a task may say beyond Django's own, ``declared`` the job behind
every task function, ``bodies`` how a worker runs one, ``results`` what is told of it,
``discovery`` which modules every process imports, ``testing`` the stock backends for tests.

Importing this package imports none of these: other task queues import the ``tasks`` module of
every installed app, also where there is no ``django.tasks``.

Reading order: ``framework``, ``options``, ``declared``, ``bodies``, ``results``, ``backend``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ultimate_jobs.tasks.backend import JobsBackend
    from ultimate_jobs.tasks.options import JobsTask, task_options

__all__ = ["JobsBackend", "JobsTask", "task_options"]

_HOMES = {"JobsBackend": "backend", "JobsTask": "options", "task_options": "options"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
