"""The queues: what each holds, and the verbs that stop it and let it go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path

from ultimate_jobs.admin.acting import ReasonForm
from ultimate_jobs.admin.audit import actor, record, together
from ultimate_jobs.admin.figures import age, at_least
from ultimate_jobs.admin.pages import ClosedAdmin, only_reads
from ultimate_jobs.admin.permissions import VIEW_JOB, may, require
from ultimate_jobs.admin.rows import local
from ultimate_jobs.admin.text import harmless, visible
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.errors import JobsError
from ultimate_jobs.models import Pause
from ultimate_jobs.operate.overview import queue_stats
from ultimate_jobs.operate.pauses import pause_queue, resume_queue
from ultimate_jobs.operate.verbs import Act

VIEW_PAUSE = "view_pause"
COUNTS = ("ready", "delayed", "running", "suspended", "failed", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueVerb:
    """One thing that an operator does to a queue."""

    name: str
    label: str
    did: str
    about: str
    permission: str
    unchanged: str
    act: Callable[[str, str, str | None], Act]


QUEUE_VERBS: Mapping[str, QueueVerb] = MappingProxyType(
    {
        "pause": QueueVerb(
            name="pause",
            label="Pause",
            did="paused",
            about="No worker takes a job from it until it is resumed. What runs goes on, and so "
            "does enqueueing.",
            permission="pause_queue",
            unchanged="was paused before",
            act=lambda queue, by, reason: pause_queue(queue, by=by, reason=reason),
        ),
        "resume": QueueVerb(
            name="resume",
            label="Resume",
            did="resumed",
            about="Workers take jobs from it again.",
            permission="resume_queue",
            unchanged="was not paused",
            act=lambda queue, by, reason: resume_queue(queue, by=by),
        ),
    }
)


class QueueForm(ReasonForm):
    """Which queue, and why."""

    queue = forms.CharField(max_length=200)
    field_order = ("queue", "reason")


class QueueAdmin(ClosedAdmin):
    """Queues, seen from their pauses: what a queue holds is counted, up to a cap."""

    def get_urls(self) -> list[URLPattern]:
        """Put the verbs before what takes everything for an id."""
        name = "ultimate_jobs_pause_act"
        own = [path("act/<slug:verb_name>/", self.view(queue_act_page), name=name)]
        return [*own, *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the queues."""
        require(request, VIEW_PAUSE)
        return only_reads(request) or queues_page(self, request)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Lead to the queues: a pause has no page of its own."""
        require(request, VIEW_PAUSE)
        return only_reads(request) or redirect(self.link("pause_changelist"))


def queues_page(admin: ClosedAdmin, request: HttpRequest) -> HttpResponse:
    """Show every queue that holds something, is paused, or is declared."""
    stats = {queue["queue"]: queue for queue in queue_stats()}
    declared = {job.spec.queue for job in registry} - stats.keys()
    rows = [*stats.values(), *(_empty(queue) for queue in declared)]
    context = {
        "queues": [
            _row(admin, request, row) for row in sorted(rows, key=lambda row: str(row["queue"]))
        ],
        "sees_jobs": may(request, VIEW_JOB),
        "pause_url": admin.link("pause_act", "pause") if may(request, "pause_queue") else None,
    }
    return admin.page(request, "queues.html", "Queues", context)


def queue_act_page(admin: ClosedAdmin, request: HttpRequest, verb_name: str) -> HttpResponse:
    """Ask, then do. A GET changes nothing."""
    verb = QUEUE_VERBS.get(verb_name)
    if verb is None:
        raise Http404("There is no such verb.")
    require(request, VIEW_PAUSE, verb.permission)
    form = QueueForm(request.POST if request.method == "POST" else None, initial=_initial(request))
    if request.method == "POST" and form.is_valid():
        _do(request, verb, form.cleaned_data["queue"], form.cleaned_data["reason"] or None)
        return redirect(admin.link("pause_changelist"))
    context = {"verb": verb, "form": form, "back": admin.link("pause_changelist")}
    return admin.page(request, "queue_act.html", f"{verb.label} a queue: are you sure?", context)


def _initial(request: HttpRequest) -> dict[str, str]:
    return {"queue": request.GET.get("queue", "")}


def _do(request: HttpRequest, verb: QueueVerb, queue: str, reason: str | None) -> None:
    try:
        with together():
            act = verb.act(queue, actor(request), reason)
            if act.details["changed"]:
                did = f"{verb.label}: {verb.did} the queue {queue}"
                record(request, Pause, f"queue {queue}", did, reason=reason)
    except JobsError as refused:
        messages.error(request, visible(f"{refused.cause} {refused.fix}"))
        return
    if act.details["changed"]:
        messages.success(request, visible(f"The queue {queue} was {verb.did}."))
    else:
        messages.info(request, visible(f"The queue {queue} {verb.unchanged}."))


def _empty(queue: str) -> dict[str, Any]:
    counts = dict.fromkeys(COUNTS, 0)
    return {"queue": queue, "paused": None, "capped": False, "oldest_ready_seconds": None, **counts}


def _row(admin: ClosedAdmin, request: HttpRequest, queue: dict[str, Any]) -> dict[str, Any]:
    name = queue["queue"]
    verb = QUEUE_VERBS["resume" if queue["paused"] else "pause"]
    url = admin.link("pause_act", verb.name, query={"queue": name})
    return {
        **harmless(queue),
        "counts": [at_least(queue[kind], capped=queue["capped"]) for kind in COUNTS],
        "oldest": age(queue["oldest_ready_seconds"]),
        "paused_at": local(queue["paused"]["paused_at"]) if queue["paused"] else "",
        "list_url": admin.link("job_changelist", query={"queue": name}),
        "button": {"label": verb.label, "url": url} if may(request, verb.permission) else None,
    }
