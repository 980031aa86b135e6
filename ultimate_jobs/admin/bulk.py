"""A verb for many jobs: a page that counts without changing anything, then a POST that does a thousand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.translation import gettext as _, ngettext

from ultimate_jobs.admin.acting import ReasonForm
from ultimate_jobs.admin.actions import VERBS, Order, Verb
from ultimate_jobs.admin.audit import actor, record, together
from ultimate_jobs.admin.filters import FilterForm, Wanted, by_shown_error, ticked, wanted_by
from ultimate_jobs.admin.pages import ClosedAdmin
from ultimate_jobs.admin.permissions import VIEW_JOB, require
from ultimate_jobs.admin.rows import job_row
from ultimate_jobs.admin.text import harmless, visible
from ultimate_jobs.errors import JobsError
from ultimate_jobs.models import Job
from ultimate_jobs.operate.bulk import Bounds, Bulk

TICKED, MATCHING = "ticked", "matching"
_NOTHING = Bulk(
    verb="", dry_run=True, affected=0, remaining=0, capped=False, next=None, selection={}
)


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """What is asked: a verb for what is wanted, and how to ask for the same again.

    ``words`` are the filters in use; with ``ids`` it was rows that were ticked. ``after`` is where an
    earlier call's search ended.
    """

    verb: Verb
    wanted: Wanted
    words: Mapping[str, str]
    ids: list[str]
    after: str | None

    @property
    def fields(self) -> list[tuple[str, str]]:
        """What a form sends to ask for the same."""
        which = ("which", TICKED if self.ids else MATCHING)
        after = [("after", self.after)] if self.after else []
        return [which, *(("ids", job) for job in self.ids), *self.words.items(), *after]


def bulk_page(admin: ClosedAdmin, request: HttpRequest, verb_name: str) -> HttpResponse:
    """Count, then do. Only a POST that says ``confirm`` changes anything."""
    verb = VERBS.get(verb_name)
    if verb is None or verb.many is None:
        raise Http404("There is no such verb.")
    require(request, VIEW_JOB, verb.permission)
    data = request.POST if request.method == "POST" else request.GET
    try:
        asked = _asked(verb, data)
    except JobsError as refused:
        messages.error(request, visible(f"{refused.cause} {refused.fix}"))
        return redirect(admin.link("job_changelist"))
    if asked is None:
        messages.warning(request, _("Tick the jobs first, or choose all that match the filter."))
        return redirect(admin.link("job_changelist"))
    if request.method == "POST" and "confirm" in data:
        return _done(admin, request, asked)
    return _question(admin, request, asked)


def _asked(verb: Verb, data: QueryDict) -> BulkRequest | None:
    """Read what is meant; ``None``: nothing is."""
    if data.get("which") == TICKED:
        wanted = ticked(data.getlist("ids"))
        ids = [str(job) for job in wanted.selection.ids]
        return None if wanted.nothing else BulkRequest(verb, wanted, {}, ids, None)
    form = FilterForm(data)
    if not form.is_valid():
        return None
    wanted, after = wanted_by(form), data.get("after") or None
    if wanted.selection.error_like is None:
        return BulkRequest(verb, wanted, form.words, [], after)
    return BulkRequest(verb, by_shown_error(wanted, after), form.words, [], after)


def _question(admin: ClosedAdmin, request: HttpRequest, asked: BulkRequest) -> HttpResponse:
    back = admin.link("job_changelist", query=asked.words)
    try:
        would = _bulk(asked, Order(by=actor(request)), dry_run=True, everything=True)
    except JobsError as refused:
        messages.error(request, visible(f"{refused.cause} {refused.fix}"))
        return redirect(back)
    context = {
        "verb": asked.verb,
        "would": would,
        "counted": _jobs(would.affected + would.remaining, capped=would.capped),
        "affected": _count(would.affected),
        "action": admin.link("job_bulk", asked.verb.name),
        "sample": [job_row(admin.admin_site, job) for job in would.sample],
        "ticked": len(asked.ids),
        "words": harmless(asked.words),
        "is_everything": asked.wanted.selection.is_everything,
        "complete": asked.wanted.complete,
        "next": asked.wanted.next,
        "fields": asked.fields,
        "form": ReasonForm(initial={"reason": request.GET.get("reason", "")}),
        "back": back,
    }
    return admin.page(
        request,
        "bulk.html",
        _("%(act)s many jobs: are you sure?") % {"act": asked.verb.label},
        context,
    )


def _done(admin: ClosedAdmin, request: HttpRequest, asked: BulkRequest) -> HttpResponse:
    form = ReasonForm(request.POST)
    back = admin.link("job_changelist", query=asked.words)
    if not form.is_valid():
        messages.error(
            request, _("The reason is too long, or has a character that cannot be stored.")
        )
        return redirect(back)
    order = Order(by=actor(request), reason=form.cleaned_data["reason"] or None)
    try:
        with together():
            done = _bulk(asked, order, dry_run=False, everything="everything" in request.POST)
            _record(request, asked, order, done)
    except JobsError as refused:
        messages.error(request, visible(f"{refused.cause} {refused.fix}"))
        return redirect(back)
    words = {
        "jobs": _count(done.affected),
        "done": asked.verb.did,
        "left": _count(done.remaining, capped=done.capped),
    }
    messages.success(request, _("%(jobs)s %(done)s, %(left)s remaining.") % words)
    return redirect(_onward(admin, asked, order, done) or back)


def _onward(admin: ClosedAdmin, asked: BulkRequest, order: Order, done: Bulk) -> str | None:
    """Answer where the same is asked for what remains; ``None``: nothing does."""
    onward = asked.wanted.next or done.next
    if asked.ids or not (done.remaining or onward):
        return None
    after = asked.after if done.remaining else onward
    query = {**asked.words, "which": MATCHING, "after": after, "reason": order.reason}
    return admin.link("job_bulk", asked.verb.name, query=query)


def _bulk(asked: BulkRequest, order: Order, *, dry_run: bool, everything: bool) -> Bulk:
    if asked.wanted.nothing or asked.verb.many is None:
        return _NOTHING
    # Jobs that are named by their errors were looked for from the place on already.
    after = None if "error" in asked.words else asked.after
    bounds = Bounds(dry_run=dry_run, everything=everything, after=after)
    return asked.verb.many(asked.wanted.selection, bounds, order)


def _count(jobs: int, *, capped: bool = False) -> str:
    return f"{jobs:,}{'+' if capped else ''}"


def _jobs(jobs: int, *, capped: bool = False) -> str:
    shown = {"jobs": _count(jobs, capped=capped)}
    return ngettext("%(jobs)s job", "%(jobs)s jobs", jobs + capped) % shown


def _record(request: HttpRequest, asked: BulkRequest, order: Order, done: Bulk) -> None:
    if not done.affected:
        return
    meant = ", ".join(f"{name}={value}" for name, value in asked.words.items()) or "every job"
    record(
        request,
        Job,
        _jobs(done.affected),
        f"{asked.verb.label}: {asked.verb.did} {_jobs(done.affected)}",
        removed=asked.verb.removes,
        reason=order.reason,
        remaining=done.remaining,
        selected=f"ticked {', '.join(asked.ids)}" if asked.ids else meant,
    )
