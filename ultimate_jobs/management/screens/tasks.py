"""Tasks: when they fire, and what they enqueued."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ultimate_jobs.management.screens.text import pairs, shown, table, value


def many(document: Mapping[str, Any]) -> RenderableType:
    """Show the tasks."""
    if not document["tasks"]:
        return Text("no tasks")
    return table(
        ("name", "cron", "zone", "last occurrence", "next"),
        (
            (
                shown(task["name"]),
                shown(task["cron"]),
                Text(task["tz"]),
                Text(task["last_occurrence"] or ""),
                Text("paused", style="yellow") if task["paused"] else Text(task["next"]),
            )
            for task in document["tasks"]
        ),
    )


def one(document: Mapping[str, Any]) -> RenderableType:
    """Show one task and its next occurrences."""
    upcoming = [Text(occurrence) for occurrence in document["upcoming"]]
    known = [
        (name, value(plain))
        for name, plain in document.items()
        if name != "upcoming" and plain is not None
    ]
    return Group(pairs(known), Text(""), *upcoming)


def fired(document: Mapping[str, Any]) -> RenderableType:
    """Show what a task enqueued."""
    lines = [
        f"{job['id']}{' (already live)' if job['deduped'] else ''}" for job in document["jobs"]
    ]
    return Text("\n".join(lines) or "no jobs")
