"""``manage.py jobs tasks``: its options, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ultimate_jobs.management.options import add_json, positive, stored
from ultimate_jobs.management.tables import shown
from ultimate_jobs.operate import tasks


def add_arguments(parsers: Any) -> None:
    """Add the verb ``tasks`` and its own verbs."""
    verbs = parsers.add_parser("tasks", help="look at tasks and act on them").add_subparsers(
        dest="task_verb", required=True, metavar="VERB"
    )
    listing = verbs.add_parser("list", help="list the tasks, with their last fire and their next")
    show = verbs.add_parser("show", help="show one task and its next occurrences")
    fire = verbs.add_parser("fire", help="enqueue a task's jobs now, beside its schedule")
    pause = verbs.add_parser("pause", help="fire a task no more until it is resumed")
    resume = verbs.add_parser("resume", help="let a paused task go on")
    for parser in (show, fire, pause, resume):
        parser.add_argument("name", help="the task's name")
    show.add_argument(
        "--count",
        type=positive,
        default=tasks.DEFAULT_UPCOMING,
        help=f"occurrences to show, at most {tasks.MAX_UPCOMING}",
    )
    pause.add_argument("--reason", type=stored, help="kept with the pause")
    for parser in (listing, show, fire, pause, resume):
        add_json(parser)


def run(options: Mapping[str, Any]) -> dict[str, Any]:
    """Do what was asked; answer the document.

    Raises:
        JobsError: it was refused.

    """
    name = options.get("name", "")
    match options["task_verb"]:
        case "list":
            return {"tasks": tasks.list_tasks()}
        case "fire":
            return {"task": name, "jobs": tasks.fire_task(name)}
        case "pause":
            tasks.pause_task(name, options["reason"])
        case "resume":
            tasks.resume_task(name)
        case _:
            pass
    return tasks.show_task(name, options.get("count", tasks.DEFAULT_UPCOMING))


def rendered(document: Mapping[str, Any]) -> RenderableType:
    """Show the document of any of the verbs."""
    if "tasks" in document:
        return _list(document["tasks"]) if document["tasks"] else Text("no tasks")
    if "jobs" in document and "task" in document:
        lines = [
            f"{job['id']}{' (already live)' if job['deduped'] else ''}" for job in document["jobs"]
        ]
        return Text("\n".join(lines) or "no jobs")
    return _details(document)


_COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "name": lambda task: task["name"],
    "cron": lambda task: task["cron"],
    "zone": lambda task: task["tz"],
    "last occurrence": lambda task: task["last_occurrence"] or "",
    "next": lambda task: "paused" if task["paused"] else task["next"],
}


def _list(found: list[dict[str, Any]]) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    for heading in _COLUMNS:
        table.add_column(heading, overflow="fold")
    for task in found:
        table.add_row(*(shown(cell(task)) for cell in _COLUMNS.values()))
    return table


def _details(document: Mapping[str, Any]) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("field", style="dim", no_wrap=True)
    table.add_column("value", overflow="fold")
    for field, value in document.items():
        if value is not None and field != "upcoming":
            text = ", ".join(value) if isinstance(value, list) else str(value)
            table.add_row(field, shown(text))
    upcoming = [shown(occurrence) for occurrence in document["upcoming"]]
    return Group(table, Text(""), *upcoming)
