"""The outbox: what committed transactions staged and the relay has not moved yet."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from ultimate_jobs.admin.figures import age, at_least
from ultimate_jobs.admin.pages import ClosedAdmin
from ultimate_jobs.admin.permissions import VIEW_JOB, may
from ultimate_jobs.admin.rows import local
from ultimate_jobs.admin.text import first_line, harmless
from ultimate_jobs.operate.overview import MAX_STAGED_ROWS, outbox_backlog, staged_rows

VIEW_OUTBOX = "view_outboxentry"


class OutboxAdmin(ClosedAdmin):
    """Staged jobs."""

    sees = VIEW_OUTBOX

    def list_page(self, request: HttpRequest) -> HttpResponse:
        """Show what waits."""
        return outbox_page(self, request)

    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Lead to the page of the job that the row is, or will be."""
        return redirect(self.link("job_change", object_id))


def outbox_page(admin: ClosedAdmin, request: HttpRequest) -> HttpResponse:
    """Show how much waits, and the oldest of it."""
    sees_jobs, backlog = may(request, VIEW_JOB), outbox_backlog()
    context = {
        "waiting": at_least(backlog["waiting"], capped=backlog["capped"]),
        "refused": f"{backlog['refused']:,}",
        "oldest": age(backlog["oldest_seconds"]) if backlog["waiting"] else "",
        "most": MAX_STAGED_ROWS,
        "rows": [
            {
                **harmless({**row, "last_error": first_line(row["last_error"])}),
                "staged": local(row["staged_at"]),
                "retried": local(row["retry_at"]),
                "url": admin.link("job_change", row["id"]) if sees_jobs else None,
            }
            for row in staged_rows()
        ],
    }
    return admin.page(request, "outbox.html", _("Outbox"), context)
