"""The list of jobs, and the addresses of the pages around it.

It is not Django's change list: that counts, offsets, reads every column, and answers whatever lookup an
address asks, so that somebody who may not see a payload could guess it letter by letter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.translation import gettext as _

from ultimate_jobs.admin.acting import act_page
from ultimate_jobs.admin.actions import VERBS
from ultimate_jobs.admin.bulk import bulk_page
from ultimate_jobs.admin.dead import dead_page
from ultimate_jobs.admin.filters import FilterForm, Wanted, holds, id_in, suggestions, wanted_by
from ultimate_jobs.admin.job_page import job_page
from ultimate_jobs.admin.pages import ClosedAdmin
from ultimate_jobs.admin.permissions import VIEW_JOB, may
from ultimate_jobs.admin.rows import job_row
from ultimate_jobs.errors import PageInvalid
from ultimate_jobs.operate.inspection import Filter, JobPage, page_of_jobs

NO_JOBS = JobPage(jobs=[], next=None, previous=None, searched=0, complete=True)


class JobAdmin(ClosedAdmin):
    """Jobs: the list, a page for each, the verbs, and the dead letters."""

    sees = VIEW_JOB

    def get_urls(self) -> list[URLPattern]:
        """Put the pages before those that take everything for an id."""
        own = [
            path("dead/", self.view(dead_page), name="ultimate_jobs_job_dead"),
            path("bulk/<slug:verb_name>/", self.view(bulk_page), name="ultimate_jobs_job_bulk"),
            path(
                "<uuid:job_id>/act/<slug:verb_name>/",
                self.view(act_page),
                name="ultimate_jobs_job_act",
            ),
        ]
        return [*own, *super().get_urls()]

    def list_page(self, request: HttpRequest) -> HttpResponse:
        """Show the list."""
        return list_page(self, request)

    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the page of a job."""
        return job_page(self, request, object_id)


def list_page(admin: ClosedAdmin, request: HttpRequest) -> HttpResponse:
    """Show a page of the list: at most five statements, none over an unbounded number of rows."""
    form = FilterForm(request.GET)
    wanted = wanted_by(form) if form.is_valid() else None
    try:
        page = NO_JOBS if wanted is None or wanted.nothing else _page(wanted, request)
    except PageInvalid as refused:
        first = _("This is the first page.")
        messages.warning(request, f"{refused.cause} {first}")
        return redirect(admin.link("job_changelist", query=form.words))
    missing = None if page.jobs else id_in(form)
    context = {
        "staged_url": missing and admin.link("job_change", missing),
        "form": form,
        "suggestions": suggestions(),
        "filtered": form.is_valid() and bool(form.words),
        "complete": page.complete and (wanted is None or wanted.complete),
        "jobs": [job_row(admin.admin_site, job) for job in _shown(page, wanted)],
        "searched": page.searched,
        "verbs": [
            {"label": verb.label, "removes": verb.removes, "url": admin.link("job_bulk", verb.name)}
            for verb in VERBS.values()
            if verb.many and may(request, verb.permission)
        ],
        **_neighbours(admin, form, page),
    }
    return admin.page(request, "jobs.html", _("Jobs"), context)


def _page(wanted: Wanted, request: HttpRequest) -> JobPage:
    after, before = request.GET.get("after"), request.GET.get("before")
    conditions = {name: getattr(wanted.selection, name) for name in wanted.selection.__slots__}
    return page_of_jobs(Filter(**conditions, after=after, before=None if after else before))


def _shown(page: JobPage, wanted: Wanted | None) -> Iterable[dict[str, Any]]:
    """Leave out jobs whose errors hold the text only where it is not shown: a guess is not answered."""
    text = None if wanted is None else wanted.selection.error_like
    return [job for job in page.jobs if text is None or holds(job["last_error"], text)]


def _neighbours(admin: ClosedAdmin, form: FilterForm, page: JobPage) -> dict[str, str | None]:
    words = form.words if form.is_valid() else {}
    ends = {"older": ("after", page.next), "newer": ("before", page.previous)}
    return {
        name: place and admin.link("job_changelist", query={**words, side: place})
        for name, (side, place) in ends.items()
    }
