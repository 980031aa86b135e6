"""The tasks: when each fires, which scheduler fires it, and the verbs that fire it now or stop it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import quote, unquote
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern
from django.utils.translation import gettext as _, gettext_lazy, ngettext

from ultimate_jobs.admin.named import Kind, NamedVerb
from ultimate_jobs.admin.pages import ClosedAdmin
from ultimate_jobs.admin.permissions import VIEW_JOB, may
from ultimate_jobs.admin.rows import as_written, local
from ultimate_jobs.admin.text import Words, harmless
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.errors import InvariantError, JobsError, TaskUnknown
from ultimate_jobs.models import TaskState
from ultimate_jobs.operate.tasks import fire_task, pause_task, resume_task, schedule, show_task
from ultimate_jobs.operate.verbs import Act

VIEW_TASK = "view_taskstate"
UPCOMING = 10


def _fire(task: str, by: str, reason: str | None) -> Act:
    """Fire a task; what its own function raises is said in words, like every refusal."""
    try:
        jobs = fire_task(task)
    except JobsError:
        raise
    except Exception as error:
        raise InvariantError(
            f"The function of '{task}' raised {type(error).__name__}; nothing was enqueued.",
            fix=f"See why with manage.py jobs tasks fire {task}.",
        ) from error
    deduped = sum(job["deduped"] for job in jobs)
    details = {"changed": True, "enqueued": len(jobs) - deduped, "deduped": deduped}
    return Act(verb="fire", by=by, reason=reason, details=details)


def _told(act: Act) -> str:
    enqueued, deduped = act.details["enqueued"], act.details["deduped"]
    shown = {"jobs": f"{enqueued:,}", "deduped": f"{deduped:,}"}
    words = ngettext("%(jobs)s job enqueued", "%(jobs)s jobs enqueued", enqueued) % shown
    return (
        _("%(words)s, %(deduped)s there already") % {**shown, "words": words} if deduped else words
    )


TASK = Kind(
    word="task",
    called=gettext_lazy("task"),
    model=TaskState,
    permission=VIEW_TASK,
    page="taskstate_changelist",
    act="taskstate_act",
    names=tasks.names,
    verbs=MappingProxyType(
        {
            "fire": NamedVerb(
                name="fire",
                label=gettext_lazy("Fire"),
                did=gettext_lazy("fired"),
                about=gettext_lazy(
                    "Enqueues now what an occurrence would enqueue. The schedule goes on as if "
                    "nothing had happened; a paused task stays paused."
                ),
                permission="fire_task",
                act=_fire,
                told=_told,
            ),
            "pause": NamedVerb(
                name="pause",
                label=gettext_lazy("Pause"),
                did=gettext_lazy("paused"),
                about=gettext_lazy(
                    "No scheduler fires it until it is resumed. What it enqueued stays."
                ),
                permission="pause_task",
                unchanged=gettext_lazy("was paused before"),
                act=lambda task, by, reason: pause_task(task, reason, by=by),
            ),
            "resume": NamedVerb(
                name="resume",
                label=gettext_lazy("Resume"),
                did=gettext_lazy("resumed"),
                about=gettext_lazy(
                    "Schedulers fire it again. Of the occurrences that were missed meanwhile, what "
                    "its catch-up says is fired at once."
                ),
                permission="resume_task",
                unchanged=gettext_lazy("was not paused"),
                act=lambda task, by, reason: resume_task(task, by=by),
            ),
        }
    ),
)


class TaskAdmin(ClosedAdmin):
    """Tasks, declared by this process or known from their rows."""

    sees = VIEW_TASK

    def get_urls(self) -> list[URLPattern]:
        """Put the verbs before what takes everything for an id."""
        return [*TASK.urls(self), *super().get_urls()]

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> TaskState | None:
        """Answer a task for the page of its history, also one that has never come anywhere."""
        return None if tasks.get(object_id) is None else TaskState(name=object_id)

    def list_page(self, request: HttpRequest) -> HttpResponse:
        """Show the tasks."""
        return tasks_page(self, request)

    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the page of a task."""
        return task_page(self, request, unquote(object_id))


def tasks_page(admin: ClosedAdmin, request: HttpRequest) -> HttpResponse:
    """Show every task, in one statement; no function of a task is called."""
    found = schedule()
    context = {
        "leader": leader_of(found),
        "tasks": [_row(admin, request, task) for task in found["tasks"]],
        "undeclared": [harmless({**task, **_instants(task)}) for task in found["undeclared"]],
    }
    return admin.page(request, "tasks.html", _("Tasks"), context)


def task_page(admin: ClosedAdmin, request: HttpRequest, name: str) -> HttpResponse:
    """Show one task: its next occurrences, and what they enqueue."""
    try:
        task = show_task(name, UPCOMING)
    except TaskUnknown:
        messages.warning(request, _("No task of this process has this name."))
        return redirect(admin.link("taskstate_changelist"))
    context = {
        "task": harmless({**task, **_instants(task)}),
        "upcoming": [_occurrence(instant) for instant in task["upcoming"]],
        "jobs": [_job(admin, request, job) for job in task["jobs"]],
        "buttons": _buttons(admin, request, task),
        "history_url": admin.link("taskstate_history", quote(name)),
    }
    return admin.page(request, "task.html", harmless(name), context)


def leader_of(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """Answer the scheduler that leads, its times by the clock of the project."""
    leader = found["leader"]
    if leader is None:
        return None
    times = {f"{name}_shown": local(leader[name]) for name in ("since", "expires_at")}
    return {**harmless(leader), **times}


def task_url(admin: ClosedAdmin, name: str) -> str:
    """Answer where the page of a task is."""
    return admin.link("taskstate_change", quote(name))


def _row(admin: ClosedAdmin, request: HttpRequest, task: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **harmless({**task, **_instants(task)}),
        "url": task_url(admin, task["name"]),
        "buttons": _buttons(admin, request, task),
    }


def _instants(task: Mapping[str, Any]) -> dict[str, str]:
    """Write the instants of a task by its own clock, beside what is exact."""
    names = ("last_occurrence", "fired_at", "paused_at", "next")
    return {f"{name}_shown": as_written(task.get(name)) for name in names}


def _occurrence(instant: str) -> dict[str, str]:
    at = datetime.fromisoformat(instant)
    return {"instant": instant, "shown": f"{at:%a %Y-%m-%d %H:%M}", "offset": instant[19:]}


def _job(admin: ClosedAdmin, request: HttpRequest, name: str) -> dict[str, Any]:
    url = admin.link("job_changelist", query={"name": name}) if may(request, VIEW_JOB) else None
    return {"name": harmless(name), "url": url}


def _buttons(
    admin: ClosedAdmin, request: HttpRequest, task: Mapping[str, Any]
) -> list[dict[str, Words]]:
    offered = ("fire", "resume" if task["paused"] else "pause")
    buttons = (TASK.button(admin, request, verb, task["name"]) for verb in offered)
    return [button for button in buttons if button is not None]
