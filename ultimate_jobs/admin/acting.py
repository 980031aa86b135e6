"""A verb for one job: a page that says what will happen, then a POST that does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _, gettext_lazy

from ultimate_jobs.admin.actions import VERBS, Order, Verb, steps_in_doubt, steps_of_the_body
from ultimate_jobs.admin.audit import actor, record, together
from ultimate_jobs.admin.pages import ClosedAdmin
from ultimate_jobs.admin.permissions import VIEW_JOB, require
from ultimate_jobs.admin.text import Words, harmless, visible
from ultimate_jobs.errors import JobsError, JobUnknown
from ultimate_jobs.models import Job
from ultimate_jobs.operate.inspection import show_job

MOST_REASON_CHARS = 500


class ReasonForm(forms.Form):
    """What every verb asks."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=MOST_REASON_CHARS,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy(
            "Kept in the log of the admin. A cancelled job and a paused queue or task show it too."
        ),
    )


class RetryForm(ReasonForm):
    """Where the run starts again."""

    from_step = forms.ChoiceField(
        label=gettext_lazy("From step"),
        required=False,
        help_text=gettext_lazy("This step and every later one are forgotten, and run again."),
    )
    field_order = ("from_step", "reason")

    def __init__(self, data: Any, job: Mapping[str, Any]) -> None:
        super().__init__(data)
        self.fields["from_step"].choices = [  # type: ignore[attr-defined]
            ("", _("none is repeated")),
            *((name, visible(name)) for name in steps_of_the_body(job)),
        ]


class ResolveForm(ReasonForm):
    """Which step, and how it ended."""

    step = forms.ChoiceField(label=gettext_lazy("Step"))
    ran = forms.ChoiceField(
        label=gettext_lazy("It"),
        choices=[
            ("yes", gettext_lazy("ran: its output is below")),
            ("no", gettext_lazy("did not run: it may run again")),
        ],
        widget=forms.RadioSelect,
    )
    output = forms.CharField(
        label=gettext_lazy("Output"),
        required=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("What the step would have answered, as JSON; null when left empty."),
    )
    field_order = ("step", "ran", "output", "reason")

    def __init__(self, data: Any, job: Mapping[str, Any]) -> None:
        super().__init__(data)
        self.fields["step"].choices = [  # type: ignore[attr-defined]
            (name, visible(name)) for name in steps_in_doubt(job)
        ]


def act_page(
    admin: ClosedAdmin, request: HttpRequest, job_id: UUID, verb_name: str
) -> HttpResponse:
    """Ask, then do. A GET changes nothing."""
    verb = _verb(verb_name)
    require(request, VIEW_JOB, verb.permission)
    try:
        job = show_job(str(job_id))
    except JobUnknown as unknown:
        messages.warning(request, unknown.cause)
        return redirect(admin.link("job_changelist"))
    form = _form(verb, request, job)
    if request.method == "POST" and form.is_valid():
        return _done(admin, request, verb, job, form.cleaned_data)
    context = {
        "verb": verb,
        "job": harmless(job),
        "form": form,
        "suits": verb.suits(job),
        "back": admin.link("job_change", job["id"]),
    }
    return admin.page(
        request, "act.html", _("%(act)s: are you sure?") % {"act": verb.label}, context
    )


def _verb(name: str) -> Verb:
    try:
        return VERBS[name]
    except KeyError:
        raise Http404("There is no such verb.") from None


def _form(verb: Verb, request: HttpRequest, job: Mapping[str, Any]) -> forms.Form:
    data = request.POST if request.method == "POST" else None
    if verb.name == "retry":
        return RetryForm(data, job)
    return ResolveForm(data, job) if verb.name == "resolve-step" else ReasonForm(data)


def _done(
    admin: ClosedAdmin,
    request: HttpRequest,
    verb: Verb,
    job: Mapping[str, Any],
    given: Mapping[str, Any],
) -> HttpResponse:
    order = Order(
        by=actor(request),
        reason=given["reason"] or None,
        from_step=given.get("from_step") or None,
        step=given.get("step", ""),
        ran=given.get("ran") == "yes",
        output=given.get("output") or None,
    )
    back = admin.link("job_change", job["id"])
    try:
        with together():
            act = verb.one(job["id"], order)
            record(
                request,
                Job,
                f"{job['name']} {job['id']}",
                f"{verb.label}: {verb.did} the job",
                object_id=job["id"],
                removed=verb.removes,
                reason=order.reason,
                **act.details,
            )
    except JobsError as refused:
        messages.error(request, visible(f"{refused.cause} {refused.fix}"))
        return redirect(back)
    words = {"act": verb.label, "job": f"{job['name']} {job['id']}", "done": _past(verb)}
    messages.success(request, visible(_("%(act)s: %(job)s was %(done)s.") % words))
    return redirect(admin.link("job_changelist") if verb.removes else back)


def _past(verb: Verb) -> Words:
    return _("resolved") if verb.name == "resolve-step" else verb.did
