"""Dead letters, grouped by what went wrong, each group with what can be done about all of it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from ultimate_jobs.admin.actions import VERBS
from ultimate_jobs.admin.bulk import MATCHING
from ultimate_jobs.admin.pages import ClosedAdmin, only_reads
from ultimate_jobs.admin.permissions import VIEW_JOB, may, require
from ultimate_jobs.admin.rows import local
from ultimate_jobs.admin.text import harmless
from ultimate_jobs.core.signature import constant_part
from ultimate_jobs.core.states import JobState
from ultimate_jobs.operate.dead import GROUP_WINDOW, dead_groups

_OFFERED = ("retry", "remove")


def dead_page(admin: ClosedAdmin, request: HttpRequest) -> HttpResponse:
    """Show the groups."""
    require(request, VIEW_JOB)
    refusal = only_reads(request)
    if refusal is not None:
        return refusal
    found = dead_groups()
    context = {
        "groups": [_group(admin, request, group) for group in found["groups"]],
        "complete": found["complete"],
        "window": GROUP_WINDOW,
    }
    return admin.page(request, "dead.html", _("Dead letters"), context)


def _group(admin: ClosedAdmin, request: HttpRequest, group: dict[str, Any]) -> dict[str, Any]:
    words = {
        "state": JobState.DEAD.value,
        "name": group["name"],
        "queue": group["queue"],
        "error": constant_part(group["signature"]),
    }
    verbs = [VERBS[name] for name in _OFFERED if may(request, VERBS[name].permission)]
    return {
        **harmless(group),
        "newest_local": local(group["newest"]),
        "oldest_local": local(group["oldest"]),
        "list_url": admin.link("job_changelist", query=words),
        "example_url": admin.link("job_change", group["example"]),
        "verbs": [
            {
                "label": _("%(act)s all") % {"act": verb.label},
                "removes": verb.removes,
                "url": admin.link("job_bulk", verb.name, query={**words, "which": MATCHING}),
            }
            for verb in verbs
        ],
    }
