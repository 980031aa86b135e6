"""The page of one job: where it stands, what its run did, what came out, and what can be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import apps
from django.contrib import messages
from django.contrib.admin.utils import quote, unquote
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _, gettext_lazy

from ultimate_jobs.admin.actions import VERBS
from ultimate_jobs.admin.pages import ClosedAdmin
from ultimate_jobs.admin.permissions import VIEW_PAYLOAD, may
from ultimate_jobs.admin.rows import local
from ultimate_jobs.admin.text import Words, harmless, pretty, shortened
from ultimate_jobs.admin.timeline import Timeline, timeline
from ultimate_jobs.core.states import LIVE
from ultimate_jobs.errors import JobUnknown
from ultimate_jobs.operate.inspection import STAGED, show_job
from ultimate_jobs.operate.slots import slot_of

_FACTS = {
    gettext_lazy("Job"): "name",
    gettext_lazy("Queue"): "queue",
    gettext_lazy("Priority"): "priority",
    gettext_lazy("Tenant"): "tenant_id",
    gettext_lazy("Idempotency key"): "idempotency_key",
    gettext_lazy("Concurrency key"): "concurrency_key",
    gettext_lazy("Run"): "run_id",
    gettext_lazy("Enqueued by"): "enqueued_by",
    gettext_lazy("Worker"): "claimed_by",
}
_TIMES = {
    gettext_lazy("Enqueued"): "created_at",
    gettext_lazy("Due"): "run_at",
    gettext_lazy("Last change"): "updated_at",
    gettext_lazy("Claimed until"): "visible_at",
}


def job_page(admin: ClosedAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show a job, or the row of the outbox that will be one."""
    sees_payload = may(request, VIEW_PAYLOAD)
    try:
        stored = show_job(unquote(object_id), outputs=sees_payload)
    except JobUnknown as unknown:
        messages.warning(request, unknown.cause)
        return redirect(admin.link("job_changelist"))
    job = harmless(stored)
    slot = slot_of(stored["id"]) if stored["state"] in LIVE else None
    drawn = timeline(job["steps"], job["updated_at"])
    context = {
        "job": job,
        "facts": [*_facts(job), *_slot_facts(slot)],
        "stands_by": slot is not None and slot["stands_by"],
        "trace": _trace(job["traceparent"]),
        "related": _related(admin, request, stored["related"], job["related"]),
        "buttons": _buttons(admin, request, stored),
        "commands": _commands(stored),
        "timeline": drawn,
        "steps": _steps(job["steps"], drawn, sees_payload=sees_payload),
        "error": shortened(job["last_error"] or ""),
        "sees_payload": sees_payload,
        "payload": _payload(stored) if sees_payload else [],
        "progress": _progress(job["progress"]),
        "history_url": admin.link("job_history", stored["id"]),
    }
    return admin.page(request, "job.html", f"{job['name']} {job['id']}", context)


def _facts(job: Mapping[str, Any]) -> list[tuple[Words, Any]]:
    told: list[tuple[Words, Any]] = [
        (title, job[name]) for title, name in _FACTS.items() if job[name] not in (None, "")
    ]
    told += [(title, local(job[name])) for title, name in _TIMES.items() if job[name]]
    delays = [f"{seconds:g} s" for seconds in job["retry_delays"]]
    if delays:
        told.append((_("Waits before retries"), ", ".join(delays)))
    return told


def _slot_facts(slot: Mapping[str, Any] | None) -> list[tuple[Words, Any]]:
    if slot is None:
        return []
    if slot["stands_by"]:
        return [(_("Slot"), _("none is free: stands by until a run with the same cap leaves one"))]
    return [(_("Slot"), slot["slot"]), (_("Slot held until"), local(slot["until"]))]


def _payload(job: Mapping[str, Any]) -> list[tuple[str, str]]:
    shown = [(_("Input"), pretty(job["input"]))]
    return shown if job["result"] is None else [*shown, (_("Result"), pretty(job["result"]))]


def _steps(
    steps: Sequence[Mapping[str, Any]], drawn: Timeline | None, *, sees_payload: bool
) -> list[dict[str, Any]]:
    bars = () if drawn is None else drawn.bars
    return [
        {
            **step,
            "bar": bar,
            "output": _output(step) if sees_payload else "",
            "error": shortened(step["error"] or ""),
            "began": local(step["started_at"]),
            "ended": local(step["completed_at"]),
            "wakes": local(step["wake_at"]),
        }
        for step, bar in zip(steps, bars, strict=True)
    ]


def _output(step: Mapping[str, Any]) -> str:
    return "" if step["output"] is None else pretty(step["output"])


def _trace(traceparent: str | None) -> dict[str, str] | None:
    """Read the ids of the trace and of the span in which the job was enqueued."""
    parts = (traceparent or "").split("-")
    return {"trace": parts[1], "span": parts[2]} if len(parts) >= 4 else None


def _progress(progress: Any) -> dict[str, Any] | None:
    """Read what a body said of its progress: numbers, or else nothing is drawn."""
    if not isinstance(progress, dict):
        return None
    done, total = progress.get("done"), progress.get("total")
    bar = {"value": str(done), "max": str(total)} if _is_share(done, total) else None
    return {"done": done, "total": total, "note": progress.get("note"), "bar": bar}


def _is_share(done: Any, total: Any) -> bool:
    numbers = all(isinstance(n, int | float) and not isinstance(n, bool) for n in (done, total))
    return numbers and 0 <= done <= total and total > 0


def _related(
    admin: ClosedAdmin,
    request: HttpRequest,
    related: Mapping[str, str] | None,
    shown: Mapping[str, str] | None,
) -> dict[str, Any] | None:
    """Name the object that the job is about, with a link for those who may see it."""
    if related is None or shown is None:
        return None
    return {"label": f"{shown['type']} {shown['id']}", "url": _object_url(admin, request, related)}


def _object_url(admin: ClosedAdmin, request: HttpRequest, related: Mapping[str, str]) -> str | None:
    try:
        model = apps.get_model(related["type"])
    except (LookupError, ValueError):
        return None
    registered = admin.admin_site._registry.get(model)  # noqa: SLF001 - there is no public question
    if registered is None or not registered.has_view_permission(request):
        return None
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"  # noqa: SLF001
    try:
        return reverse(name, args=[quote(related["id"])], current_app=admin.admin_site.name)
    except NoReverseMatch:
        return None


def _buttons(
    admin: ClosedAdmin, request: HttpRequest, job: Mapping[str, Any]
) -> list[dict[str, Any]]:
    if job["state"] == STAGED:
        return []
    return [
        {
            "label": verb.label,
            "removes": verb.removes,
            "url": admin.link("job_act", job["id"], verb.name),
        }
        for verb in VERBS.values()
        if verb.suits(job) and may(request, verb.permission)
    ]


def _commands(job: Mapping[str, Any]) -> list[str]:
    show = f"manage.py jobs show {job['id']}"
    if job["state"] == STAGED:
        return [show]
    suited = [verb.command for verb in VERBS.values() if verb.suits(job)]
    return [show, *(command.replace("ID", job["id"]) for command in suited)]
