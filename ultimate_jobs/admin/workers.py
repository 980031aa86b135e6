"""The worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from ultimate_jobs.admin.figures import bodies
from ultimate_jobs.admin.pages import ClosedAdmin
from ultimate_jobs.admin.permissions import VIEW_JOB, may
from ultimate_jobs.admin.rows import local
from ultimate_jobs.admin.text import harmless
from ultimate_jobs.operate.workers import workers

VIEW_WORKER = "view_worker"
MOST_RUNNING_SHOWN = 10


class WorkerAdmin(ClosedAdmin):
    """Worker processes, each by its sign of life."""

    sees = VIEW_WORKER

    def list_page(self, request: HttpRequest) -> HttpResponse:
        """Show the processes."""
        return workers_page(self, request)


def workers_page(admin: ClosedAdmin, request: HttpRequest) -> HttpResponse:
    """Show where each process is, what it serves, and what it held at its last sign of life."""
    sees_jobs = may(request, VIEW_JOB)
    context = {"workers": [_row(admin, row, sees_jobs=sees_jobs) for row in workers()]}
    return admin.page(request, "workers.html", _("Workers"), context)


def _row(admin: ClosedAdmin, row: Mapping[str, Any], *, sees_jobs: bool) -> dict[str, Any]:
    running = row["running"]
    return {
        **harmless(row),
        "bodies": bodies(len(running), row["concurrency"]),
        "jobs": [
            {
                "id": harmless(job),
                "url": admin.link("job_change", job) if sees_jobs else None,
            }
            for job in running[:MOST_RUNNING_SHOWN]
        ],
        "more": max(len(running) - MOST_RUNNING_SHOWN, 0),
        "started": local(row["started_at"]),
        "beat": local(row["beat_at"]),
    }
