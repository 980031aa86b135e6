"""What the list is filtered by: a form that is read from the address, and the selection it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.utils.translation import gettext_lazy

from ultimate_jobs.core.selection import Selection
from ultimate_jobs.core.states import JobState
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.operate.bulk import MAX_BULK_ROWS
from ultimate_jobs.operate.finding import Sighting, find_by_id, find_by_prefix
from ultimate_jobs.operate.inspection import errors_of
from ultimate_jobs.operate.search import search

AGES = {
    "1h": (gettext_lazy("in the past hour"), timedelta(hours=1)),
    "24h": (gettext_lazy("in the past 24 hours"), timedelta(hours=24)),
    "7d": (gettext_lazy("in the past 7 days"), timedelta(days=7)),
    "30d": (gettext_lazy("in the past 30 days"), timedelta(days=30)),
}
QUEUES_LIST, NAMES_LIST = "uj-queues", "uj-names"
_MOST_TYPE = 2**31


class FilterForm(forms.Form):
    """The filters of the list; each is optional. Nothing else of the address is looked at."""

    q = forms.CharField(
        label=gettext_lazy("Id or key"),
        required=False,
        max_length=500,
        widget=forms.TextInput(
            attrs={"type": "search", "placeholder": gettext_lazy("id, run, key or key*")}
        ),
    )
    tenant = forms.CharField(label=gettext_lazy("Tenant"), required=False, max_length=500)
    state = forms.ChoiceField(
        label=gettext_lazy("State"),
        required=False,
        choices=[("", gettext_lazy("any")), *((state.value, state.value) for state in JobState)],
    )
    queue = forms.CharField(
        label=gettext_lazy("Queue"),
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"list": QUEUES_LIST}),
    )
    name = forms.CharField(
        label=gettext_lazy("Name"),
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"list": NAMES_LIST}),
    )
    age = forms.ChoiceField(
        label=gettext_lazy("Enqueued"),
        required=False,
        choices=[
            ("", gettext_lazy("at any time")),
            *((age, words) for age, (words, _) in AGES.items()),
        ],
    )
    error = forms.CharField(label=gettext_lazy("Text in the error"), required=False, max_length=200)
    related = forms.CharField(required=False, max_length=300, widget=forms.HiddenInput)

    def clean_related(self) -> str:
        """Refuse what names no object."""
        text: str = self.cleaned_data["related"]
        kind, colon, key = text.partition(":")
        if text and not (colon and key and kind.isdecimal() and int(kind) < _MOST_TYPE):
            raise forms.ValidationError(gettext_lazy("This names no object."))
        return text

    @property
    def words(self) -> dict[str, str]:
        """The filters in use, as an address spells them."""
        return {name: value for name, value in self.cleaned_data.items() if value}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a filter means.

    With ``nothing`` no job can meet it, whatever the selection says: what was searched is not there.
    ``complete`` is false when the search for it ended at its window; ``next`` goes on from there.
    """

    selection: Selection
    nothing: bool = False
    complete: bool = True
    next: str | None = None


def wanted_by(form: FilterForm) -> Wanted:
    """Answer what a valid form means; searches for an id or a key's beginning take two statements."""
    given: dict[str, str] = form.words
    conditions = Selection(
        states=(JobState(given["state"]),) if "state" in given else (),
        queue=given.get("queue"),
        name=given.get("name"),
        tenant=given.get("tenant"),
        error_like=given.get("error"),
        related=_related(given.get("related")),
        newer_than=AGES[given["age"]][1] if "age" in given else None,
    )
    return _searched(given.get("q"), conditions)


def by_shown_error(wanted: Wanted, after: str | None) -> Wanted:
    """Answer the jobs whose errors hold the text as they are shown, for a count of what is meant.

    The table is searched in errors as they are stored. Were that counted, a guess at a secret would be
    answered: so the jobs are named here, at most 1,000 from a place on, in two statements.

    Raises:
        PageInvalid: no search of these conditions gave out this place.

    """
    text = wanted.selection.error_like
    if text is None or wanted.nothing:
        return wanted
    found = search(wanted.selection, limit=MAX_BULK_ROWS, after=after, crowded=True)
    shown = [row["id"] for row in errors_of(found.ids) if holds(row["last_error"], text)]
    ids = tuple(UUID(job) for job in shown)
    complete = wanted.complete and found.complete and found.older is None
    chosen = replace(wanted.selection, ids=ids, error_like=None)
    return Wanted(chosen, nothing=not ids, complete=complete, next=found.older)


def holds(error: str | None, text: str) -> bool:
    """Answer whether an error holds a text, upper and lower case alike."""
    return text.casefold() in (error or "").casefold()


def ticked(ids: list[str]) -> Wanted:
    """Answer what the ticked rows of a page mean; ids that are none are left out."""
    known = tuple(dict.fromkeys(filter(None, map(_uuid, ids[:MAX_BULK_ROWS]))))
    return Wanted(Selection(ids=known), nothing=not known)


def id_in(form: FilterForm) -> UUID | None:
    """Answer the id that is searched for, if it is one."""
    return _uuid(form.cleaned_data.get("q"))


def suggestions() -> Mapping[str, list[str]]:
    """Answer the queues and the names of the jobs that this process knows."""
    queues = {job.spec.queue for job in registry} | {"default"}
    return {QUEUES_LIST: sorted(queues), NAMES_LIST: registry.names()}


def _searched(text: str | None, conditions: Selection) -> Wanted:
    if not text:
        return Wanted(conditions)
    job = _uuid(text)
    if job is not None and (found := find_by_id(job)).ids:
        return _those(found, conditions)
    if text.endswith("*") and text != "*":
        return _those(find_by_prefix(text[:-1]), conditions)
    return Wanted(replace(conditions, key=text))


def _those(found: Sighting, conditions: Selection) -> Wanted:
    chosen = replace(conditions, ids=found.ids)
    return Wanted(chosen, nothing=not found.ids, complete=found.complete)


def _related(text: str | None) -> tuple[int, str] | None:
    if not text:
        return None
    kind, _, key = text.partition(":")
    return int(kind), key


def _uuid(text: Any) -> UUID | None:
    try:
        return UUID(text)
    except (ValueError, TypeError, AttributeError):
        return None
