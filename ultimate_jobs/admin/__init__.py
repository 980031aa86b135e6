"""Pages for operators in the Django admin.

Every page reads through ``operate``, shows stored texts escaped and redacted, and in a bounded number of
statements; every change is a POST, asks for a permission of its own, and leaves a line in the admin's
log. Django imports this when ``django.contrib.admin`` is installed, and nothing else does.

A project with an ``AdminSite`` of its own calls ``register(site)``.
"""

from __future__ import annotations

from django.contrib import admin

from ultimate_jobs.admin.jobs import JobAdmin
from ultimate_jobs.admin.outbox import OutboxAdmin
from ultimate_jobs.admin.overview import OverviewAdmin
from ultimate_jobs.admin.queues import QueueAdmin
from ultimate_jobs.admin.related import JobsFor
from ultimate_jobs.admin.tasks import TaskAdmin
from ultimate_jobs.admin.workers import WorkerAdmin
from ultimate_jobs.models import Job, OutboxEntry, Overview, Pause, TaskState, Worker

__all__ = ["JobsFor", "register"]

_PAGES = (
    (Overview, OverviewAdmin),
    (Job, JobAdmin),
    (Pause, QueueAdmin),
    (TaskState, TaskAdmin),
    (Worker, WorkerAdmin),
    (OutboxEntry, OutboxAdmin),
)


def register(site: admin.AdminSite) -> None:
    """Add the pages to an admin site; those it has already stay."""
    for model, page in _PAGES:
        if not site.is_registered(model):
            site.register(model, page)


register(admin.site)
