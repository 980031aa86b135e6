"""The queues: what each holds, and the verbs that stop it and let it go on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern
from django.utils.translation import gettext as _, gettext_lazy

from ultimate_jobs.admin.figures import age, at_least
from ultimate_jobs.admin.named import Kind, NamedVerb
from ultimate_jobs.admin.pages import ClosedAdmin
from ultimate_jobs.admin.permissions import VIEW_JOB, may
from ultimate_jobs.admin.rows import local
from ultimate_jobs.admin.text import harmless
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.models import Pause
from ultimate_jobs.operate.overview import queue_stats
from ultimate_jobs.operate.pauses import pause_queue, resume_queue
from ultimate_jobs.operate.stranded import stranded_jobs

VIEW_PAUSE = "view_pause"
COUNTS = ("ready", "delayed", "standing_by", "running", "suspended", "failed", "dead")


QUEUE = Kind(
    word="queue",
    called=gettext_lazy("queue"),
    model=Pause,
    permission=VIEW_PAUSE,
    page="pause_changelist",
    act="pause_act",
    verbs=MappingProxyType(
        {
            "pause": NamedVerb(
                name="pause",
                label=gettext_lazy("Pause"),
                did=gettext_lazy("paused"),
                about=gettext_lazy(
                    "No worker takes a job from it until it is resumed. What runs goes on, and so "
                    "does enqueueing."
                ),
                permission="pause_queue",
                unchanged=gettext_lazy("was paused before"),
                act=lambda queue, by, reason: pause_queue(queue, by=by, reason=reason),
            ),
            "resume": NamedVerb(
                name="resume",
                label=gettext_lazy("Resume"),
                did=gettext_lazy("resumed"),
                about=gettext_lazy("Workers take jobs from it again."),
                permission="resume_queue",
                unchanged=gettext_lazy("was not paused"),
                act=lambda queue, by, reason: resume_queue(queue, by=by),
            ),
        }
    ),
)


class QueueAdmin(ClosedAdmin):
    """Queues, seen from their pauses: what a queue holds is counted, up to a cap."""

    sees = VIEW_PAUSE

    def get_urls(self) -> list[URLPattern]:
        """Put the verbs before what takes everything for an id."""
        return [*QUEUE.urls(self), *super().get_urls()]

    def list_page(self, request: HttpRequest) -> HttpResponse:
        """Show the queues."""
        return queues_page(self, request)


def queues_page(admin: ClosedAdmin, request: HttpRequest) -> HttpResponse:
    """Show every queue that holds something, is paused, or is declared."""
    stats = {queue["queue"]: queue for queue in queue_stats()}
    declared = {job.spec.queue for job in registry} - stats.keys()
    rows = [*stats.values(), *(_empty(queue) for queue in declared)]
    context = {
        "queues": [
            _row(admin, request, row) for row in sorted(rows, key=lambda row: str(row["queue"]))
        ],
        "stranded": [_stranded(admin, group) for group in stranded_jobs()],
        "sees_jobs": may(request, VIEW_JOB),
        "pause_url": admin.link("pause_act", "pause") if may(request, "pause_queue") else None,
    }
    return admin.page(request, "queues.html", _("Queues"), context)


def _stranded(admin: ClosedAdmin, group: Mapping[str, Any]) -> dict[str, Any]:
    query = {"queue": group["queue"], "name": group["name"]}
    return {
        **harmless(group),
        "text": at_least(group["count"], capped=group["capped"]),
        "oldest": age(group["oldest_seconds"]),
        "url": admin.link("job_changelist", query=query),
    }


def _empty(queue: str) -> dict[str, Any]:
    counts = dict.fromkeys(COUNTS, 0)
    return {"queue": queue, "paused": None, "capped": False, "oldest_ready_seconds": None, **counts}


def _row(admin: ClosedAdmin, request: HttpRequest, queue: dict[str, Any]) -> dict[str, Any]:
    name = queue["queue"]
    verb = "resume" if queue["paused"] else "pause"
    return {
        **harmless(queue),
        "counts": [at_least(queue[kind], capped=queue["capped"]) for kind in COUNTS],
        "oldest": age(queue["oldest_ready_seconds"]),
        "paused_at": local(queue["paused"]["paused_at"]) if queue["paused"] else "",
        "list_url": admin.link("job_changelist", query={"queue": name}),
        "button": QUEUE.button(admin, request, verb, name),
    }
