"""The verbs: one table that says what each is called, who may use it, when, and what it calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.utils.translation import gettext_lazy

from ultimate_jobs.admin.text import Words
from ultimate_jobs.core.replay import StepStatus, is_reserved
from ultimate_jobs.core.selection import Selection
from ultimate_jobs.core.states import LIVE, TERMINAL, JobState
from ultimate_jobs.operate.bulk import (
    Bounds,
    Bulk,
    cancel_jobs,
    promote_jobs,
    remove_jobs,
    retry_jobs,
)
from ultimate_jobs.operate.verbs import (
    Act,
    cancel_job,
    promote_job,
    remove_job,
    resolve_step,
    retry_job,
)

IN_DOUBT = frozenset({StepStatus.STARTED.value, StepStatus.FAILED.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the operator filled in: who, why, and what the verb's own form asks."""

    by: str
    reason: str | None = None
    from_step: str | None = None
    step: str = ""
    ran: bool = False
    output: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One thing that an operator does to a job.

    Attributes:
        name: how addresses spell it.
        label: what the button says; ``did`` is its past, ``about`` says what it does.
        permission: who may, beside seeing jobs.
        suits: whether a job, as ``show_job`` answers it, is in a state for it.
        one, many: what it calls; ``many`` is ``None`` for a verb that acts on single jobs only.
        command: the same on a command line, with ``ID`` for the job.
        removes: nothing is left of the job.

    """

    name: str
    label: Words
    did: Words
    about: Words
    permission: str
    suits: Callable[[Mapping[str, Any]], bool]
    one: Callable[[str, Order], Act]
    many: Callable[[Selection, Bounds, Order], Bulk] | None = None
    command: str
    removes: bool = False


def steps_in_doubt(job: Mapping[str, Any]) -> list[str]:
    """Answer the names of the steps of which nobody knows how they ended."""
    return [step["name"] for step in job["steps"] if step["status"] in IN_DOUBT]


def steps_of_the_body(job: Mapping[str, Any]) -> list[str]:
    """Answer the names of the steps that a retry can start at."""
    return [step["name"] for step in job["steps"] if not is_reserved(step["name"])]


def _waits_for_its_time(job: Mapping[str, Any]) -> bool:
    # A job that is to be tried again is due later than when it was put back.
    due, moved = (datetime.fromisoformat(job[name]) for name in ("run_at", "updated_at"))
    is_put_back = job["state"] == JobState.READY and due > moved
    return job["state"] == JobState.DELAYED or is_put_back


_VERBS = (
    Verb(
        name="retry",
        label=gettext_lazy("Retry"),
        did=gettext_lazy("retried"),
        about=gettext_lazy(
            "Makes it due now, with all its attempts. Finished steps are not repeated."
        ),
        permission="retry_job",
        suits=lambda job: job["state"] in TERMINAL,
        one=lambda job, order: retry_job(job, order.from_step, by=order.by),
        many=lambda jobs, bounds, order: retry_jobs(jobs, bounds, by=order.by),
        command="manage.py jobs retry ID",
    ),
    Verb(
        name="cancel",
        label=gettext_lazy("Cancel"),
        did=gettext_lazy("cancelled"),
        about=gettext_lazy(
            "Ends it for good: nothing retries it by itself, nothing is compensated. "
            "A body that runs is told to stop."
        ),
        permission="cancel_job",
        suits=lambda job: job["state"] in LIVE,
        one=lambda job, order: cancel_job(job, order.reason, by=order.by),
        many=lambda jobs, bounds, order: cancel_jobs(
            jobs, bounds, reason=order.reason, by=order.by
        ),
        command="manage.py jobs cancel ID",
    ),
    Verb(
        name="promote",
        label=gettext_lazy("Run now"),
        did=gettext_lazy("made due"),
        about=gettext_lazy("Makes it due now, instead of at its time."),
        permission="promote_job",
        suits=_waits_for_its_time,
        one=lambda job, order: promote_job(job, by=order.by),
        many=lambda jobs, bounds, order: promote_jobs(jobs, bounds, by=order.by),
        command="manage.py jobs promote ID",
    ),
    Verb(
        name="remove",
        label=gettext_lazy("Remove"),
        did=gettext_lazy("removed"),
        about=gettext_lazy("Deletes it with its steps. Nothing is left of it."),
        permission="remove_job",
        suits=lambda job: job["state"] in TERMINAL | LIVE - {JobState.RUNNING},
        one=lambda job, order: remove_job(job, by=order.by),
        many=lambda jobs, bounds, order: remove_jobs(jobs, bounds, by=order.by),
        command="manage.py jobs remove ID",
        removes=True,
    ),
    Verb(
        name="resolve-step",
        label=gettext_lazy("Resolve a step"),
        did=gettext_lazy("resolved a step of"),
        about=gettext_lazy(
            "Says how a step ended that nobody else can know about. Retry the job afterwards."
        ),
        permission="resolve_step",
        suits=lambda job: (
            job["state"] in TERMINAL | LIVE - {JobState.RUNNING} and bool(steps_in_doubt(job))
        ),
        one=lambda job, order: resolve_step(
            job, order.step, ran=order.ran, output=order.output, by=order.by
        ),
        command="manage.py jobs resolve-step ID STEP --ran --output JSON",
    ),
)

VERBS: Mapping[str, Verb] = MappingProxyType({verb.name: verb for verb in _VERBS})
