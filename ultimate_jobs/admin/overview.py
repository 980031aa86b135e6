"""The overview: what waits, what runs, what ended, what is wrong, on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.dateformat import format as date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from ultimate_jobs.admin.charts import SCALES, Chart, bar_chart, slots_of
from ultimate_jobs.admin.figures import age, at_least, bodies
from ultimate_jobs.admin.pages import ClosedAdmin
from ultimate_jobs.admin.permissions import VIEW_JOB, may
from ultimate_jobs.admin.tasks import TASK, VIEW_TASK, leader_of
from ultimate_jobs.admin.text import harmless
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.operate.counters import counter_slots
from ultimate_jobs.operate.dead import commonest_errors
from ultimate_jobs.operate.overview import outbox_backlog, queue_stats
from ultimate_jobs.operate.stranded import PATIENCE
from ultimate_jobs.operate.tasks import schedule
from ultimate_jobs.operate.workers import MOST_WORKERS, workers_of

USUAL_PERIOD = "24h"
REFRESH_SECONDS = 10
MOST_WORKERS_SHOWN = 20
MOST_TASKS_SHOWN = 20
_COUNTS = ("ready", "running", "delayed", "suspended", "failed", "dead")


class OverviewAdmin(ClosedAdmin):
    """One page, read in six statements; who may see jobs may see it."""

    sees = VIEW_JOB

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may(request, VIEW_JOB)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may(request, VIEW_JOB)

    def get_urls(self) -> list[URLPattern]:
        """Leave out the pages of single rows, which the admin of jobs has."""
        view = self.admin_site.admin_view(self.changelist_view)
        return [path("", view, name="ultimate_jobs_overview_changelist")]

    def list_page(self, request: HttpRequest) -> HttpResponse:
        """Answer the page for the period that is asked for."""
        asked = request.GET.get("period", USUAL_PERIOD)
        period = asked if asked in SCALES else USUAL_PERIOD
        context = {
            "periods": [{"name": name, "here": name == period} for name in SCALES],
            "refresh_seconds": REFRESH_SECONDS,
            "dead_url": self.link("job_dead"),
            "tasks_url": self.link(TASK.page) if may(request, VIEW_TASK) else None,
            **self._now(),
            **_lately(period),
        }
        return self.page(request, "overview.html", _("Overview"), harmless(context))

    def _now(self) -> dict[str, Any]:
        queues, outbox = queue_stats(), outbox_backlog()
        fleet = get_driver().operator.fleet(workers=MOST_WORKERS, tasks=tasks.names())
        processes, planned = workers_of(fleet), schedule(fleet)
        return {
            "figures": _figures(queues, outbox, processes),
            "leader": leader_of(planned),
            "tasks": _tasks(planned["tasks"]),
            "more_tasks": max(len(planned["tasks"]) - MOST_TASKS_SHOWN, 0),
            "queues": [self._queue(queue) for queue in queues],
            "outbox": outbox,
            "outbox_waiting": at_least(outbox["waiting"], capped=outbox["capped"]),
            "outbox_oldest": age(outbox["oldest_seconds"]),
            "workers": [_worker(row) for row in processes[:MOST_WORKERS_SHOWN]],
            "more_workers": max(len(processes) - MOST_WORKERS_SHOWN, 0),
            "errors": [self._error(group) for group in commonest_errors()],
            "unserved": unserved(queues, processes),
            "queues_url": self.link("pause_changelist"),
        }

    def _list(self, **query: str) -> str:
        return self.link("job_changelist", query=query)

    def _queue(self, queue: Mapping[str, Any]) -> dict[str, Any]:
        name, capped = queue["queue"], queue["capped"]
        cells = [
            {
                "count": queue[state],
                "text": at_least(queue[state], capped=capped),
                "bad": state == "dead" and queue[state] > 0,
                "url": self._list(queue=name, state=state) if queue[state] else None,
            }
            for state in _COUNTS
        ]
        return {
            "name": name,
            "url": self._list(queue=name),
            "paused": _pause(queue["paused"]),
            "cells": cells,
            "oldest": age(queue["oldest_ready_seconds"]),
        }

    def _error(self, group: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **group,
            "newest": _instant(group["newest"]),
            "url": self._list(queue=group["queue"], name=group["name"], state="dead"),
        }


def unserved(
    queues: Sequence[Mapping[str, Any]], processes: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Name the queues in which jobs have been due for long, and which no living worker serves."""
    served = {name for row in processes if row["alive"] for name in row["queues"]}
    patience = PATIENCE.total_seconds()
    return [
        queue["queue"]
        for queue in queues
        if queue["queue"] not in served
        and queue["paused"] is None
        and (queue["oldest_ready_seconds"] or 0) >= patience
    ]


def _figures(
    queues: Sequence[Mapping[str, Any]],
    outbox: Mapping[str, Any],
    processes: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    capped = any(queue["capped"] for queue in queues)
    due, running, dead = (
        sum(queue[state] for queue in queues) for state in ("ready", "running", "dead")
    )
    waits = [queue for queue in queues if queue["oldest_ready_seconds"] is not None]
    oldest = max(waits, key=lambda queue: queue["oldest_ready_seconds"], default=None)
    alive = sum(row["alive"] for row in processes)
    paused = sum(queue["paused"] is not None for queue in queues)
    lapsed = len(processes) - alive
    return [
        _figure(
            _("Due now"),
            at_least(due, capped=capped),
            _("%(n)s paused") % {"n": paused} if paused else "",
        ),
        _figure(
            _("Oldest wait"),
            age(None if oldest is None else oldest["oldest_ready_seconds"]),
            "" if oldest is None else oldest["queue"],
        ),
        _figure(_("In flight"), at_least(running, capped=capped)),
        _figure(
            _("Outbox"),
            at_least(outbox["waiting"], capped=outbox["capped"]),
            _("oldest %(age)s") % {"age": age(outbox["oldest_seconds"])}
            if outbox["waiting"]
            else "",
        ),
        _figure(_("Dead letters"), at_least(dead, capped=capped), bad=dead > 0),
        _figure(
            _("Workers"),
            str(alive),
            _("%(n)s without a sign of life") % {"n": lapsed} if lapsed else "",
            bad=not alive and due > 0,
        ),
    ]


def _figure(label: str, value: str, note: str = "", *, bad: bool = False) -> dict[str, Any]:
    return {"label": label, "value": value, "note": note, "bad": bad}


def _lately(period: str) -> dict[str, Any]:
    """Draw what ended in a period."""
    scale = SCALES[period]
    answer = counter_slots(period)
    found = answer["slots"]
    counted = {datetime.fromisoformat(slot["slot"]): slot for slot in found}
    now = answer["now"]
    slots = [] if now is None else slots_of(counted, scale, datetime.fromisoformat(now))
    charts = [
        bar_chart("throughput", _("Throughput"), slots, ("done",), scale, localtime),
        bar_chart(
            "failures", _("Failures"), slots, ("retried", "failed", "dead"), scale, localtime
        ),
    ]
    return {"charts": charts, "period": period, "scale": scale, "mean": _mean(found, charts)}


def _mean(slots: Iterable[Mapping[str, Any]], charts: Iterable[Chart]) -> str | None:
    ended = sum(total.count for chart in charts for total in chart.totals)
    spent = sum(slot["duration_ms"] for slot in slots)
    return f"{spent / ended:,.0f} ms" if ended else None


def _pause(pause: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if pause is None else {**pause, "paused_at": _instant(pause["paused_at"])}


def _worker(row: Mapping[str, Any]) -> dict[str, Any]:
    instants = ("started_at", "beat_at", "expires_at")
    told = {"bodies": bodies(len(row["running"]), row["concurrency"])}
    return {**row, **told, **{name: _instant(row[name]) for name in instants}}


def _tasks(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Answer when the tasks that fire soonest fired last and fire next; paused ones come last."""
    soonest = sorted(found, key=lambda task: (task["paused"], _instant(task["next"])))
    return [_task(task) for task in soonest[:MOST_TASKS_SHOWN]]


def _task(task: Mapping[str, Any]) -> dict[str, Any]:
    """Tell the instants of a task by its own clock."""
    return {
        "name": task["name"],
        "zone": task["tz"],
        "last": _by_its_clock(task["last_occurrence"]),
        "next": _by_its_clock(task["next"]),
        "paused": task["paused"],
    }


def _by_its_clock(text: str | None) -> str:
    return "" if text is None else date_format(datetime.fromisoformat(text), "j M H:i")


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
