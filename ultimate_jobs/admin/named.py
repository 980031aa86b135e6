"""A verb for what has a name, such as a queue or a task: a page that asks, then a POST that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from ultimate_jobs.admin.acting import ReasonForm
from ultimate_jobs.admin.audit import actor, record, together
from ultimate_jobs.admin.pages import ClosedAdmin
from ultimate_jobs.admin.permissions import may, require
from ultimate_jobs.admin.text import Words, visible
from ultimate_jobs.errors import JobsError
from ultimate_jobs.operate.verbs import Act

MOST_NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedVerb:
    """One thing that an operator does to what has a name.

    Attributes:
        name: how addresses spell it.
        label: what the button says; ``did`` is its past, ``about`` says what it does.
        permission: who may, beside seeing the page.
        unchanged: what is said when there was nothing to do.
        act: what it calls, with the name, who and why; ``changed`` in the details of the answer says
            whether anything was done.
        told: what else there is to say of what was done.

    """

    name: str
    label: Words
    did: Words
    about: Words
    permission: str
    unchanged: Words = ""
    act: Callable[[str, str, str | None], Act]
    told: Callable[[Act], str] = lambda act: ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What has a name, and what is done to it.

    Attributes:
        word: the name of its field and its parameter; ``called`` is the same for people.
        model: whose line the log has.
        permission: who sees its page.
        page: the name of the URL of its page.
        act: the name of the URL of its verbs.
        verbs: by the names that addresses have.
        names: every name there is; ``None``: any name can be written.

    """

    word: str
    called: Words
    model: type[models.Model]
    permission: str
    page: str
    act: str
    verbs: Mapping[str, NamedVerb]
    names: Callable[[], Iterable[str]] | None = None

    def button(
        self, admin: ClosedAdmin, request: HttpRequest, verb_name: str, name: str
    ) -> dict[str, Words] | None:
        """Answer what leads to a verb, for those who may."""
        verb = self.verbs[verb_name]
        if not may(request, verb.permission):
            return None
        url = admin.link(self.act, verb.name, query={self.word: name})
        return {"label": verb.label, "url": url}

    def urls(self, admin: ClosedAdmin) -> list[URLPattern]:
        """Answer the address of the verbs."""
        page = partial(_act_page, self)
        return [path("act/<slug:verb_name>/", admin.view(page), name=f"ultimate_jobs_{self.act}")]


class NamedForm(ReasonForm):
    """Which one, and why."""

    def __init__(self, data: Any, kind: Kind, asked: str) -> None:
        super().__init__(data, initial={kind.word: asked})
        self.fields[kind.word] = _field(kind)
        self.order_fields([kind.word, "reason"])


def _act_page(kind: Kind, admin: ClosedAdmin, request: HttpRequest, verb_name: str) -> HttpResponse:
    """Ask, then do. A GET changes nothing."""
    verb = kind.verbs.get(verb_name)
    if verb is None:
        raise Http404("There is no such verb.")
    require(request, kind.permission, verb.permission)
    given = request.POST if request.method == "POST" else None
    form = NamedForm(given, kind, request.GET.get(kind.word, ""))
    if request.method == "POST" and form.is_valid():
        _do(request, kind, verb, form.cleaned_data[kind.word], form.cleaned_data["reason"] or None)
        return redirect(admin.link(kind.page))
    title = _("%(act)s a %(kind)s") % {"act": verb.label, "kind": kind.called}
    context = {"verb": verb, "heading": title, "form": form, "back": admin.link(kind.page)}
    return admin.page(
        request, "named_act.html", _("%(act)s: are you sure?") % {"act": title}, context
    )


def _field(kind: Kind) -> forms.Field:
    label = capfirst(str(kind.called))
    if kind.names is None:
        return forms.CharField(label=label, max_length=MOST_NAME_CHARS)
    return forms.ChoiceField(label=label, choices=[(name, visible(name)) for name in kind.names()])


def _do(request: HttpRequest, kind: Kind, verb: NamedVerb, name: str, reason: str | None) -> None:
    what = f"{kind.word} {name}"
    try:
        with together():
            act = verb.act(name, actor(request), reason)
            if act.details["changed"]:
                did = f"{verb.label}: {verb.did} the {what}"
                told = f"{did}{_more(verb, act)}"
                record(request, kind.model, what, told, object_id=name, reason=reason)
    except JobsError as refused:
        messages.error(request, visible(f"{refused.cause} {refused.fix}"))
        return
    words = {"kind": kind.called, "name": name, "done": verb.did, "more": _more(verb, act)}
    if act.details["changed"]:
        told = _("The %(kind)s %(name)s was %(done)s%(more)s.") % words
        messages.success(request, visible(told))
    else:
        told = _("The %(kind)s %(name)s %(unchanged)s.") % {**words, "unchanged": verb.unchanged}
        messages.info(request, visible(told))


def _more(verb: NamedVerb, act: Act) -> str:
    told = verb.told(act)
    return f": {told}" if told else ""
