"""Dead letters by what they have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ultimate_jobs.management.screens.text import instant, shown, table


def groups(document: Mapping[str, Any]) -> RenderableType:
    """Show each kind of error, how often it ended a job, and the line that retries these."""
    if not document["groups"]:
        return Text("no dead jobs")
    found = table(
        ("count", "name", "queue", "newest", "error"),
        (
            (
                Text(f"{group['count']:,}"),
                shown(group["name"]),
                shown(group["queue"]),
                instant(group["newest"]),
                shown(group["signature"]),
            )
            for group in document["groups"]
        ),
        whole=("count", "newest"),
    )
    lines = [shown(group["retry"]) for group in document["groups"]]
    rest = [] if document["complete"] else [Text(""), Text("older ones are in no group")]
    return Group(found, Text(""), *lines, *rest)
