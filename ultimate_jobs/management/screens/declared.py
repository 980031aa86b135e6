"""What is declared and set: jobs, settings, statements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from ultimate_jobs.management.screens.text import pairs, shown, table, value


def described(document: Mapping[str, Any]) -> RenderableType:
    """Show the declared jobs; a single one with the schema of its input."""
    jobs = document["jobs"]
    if not jobs:
        return Text("no jobs are declared")
    if len(jobs) == 1:
        return _described(jobs[0])
    return table(
        ("name", "queue", "attempts", "module", "about"),
        (
            (
                shown(job["name"]),
                shown(job["queue"]),
                Text(str(job["retry"]["attempts"])),
                shown(job["module"]),
                shown(job["doc"] or ""),
            )
            for job in jobs
        ),
    )


def settings(document: Mapping[str, Any]) -> RenderableType:
    """Show every setting, its value and where that comes from."""
    return table(
        ("setting", "value", "origin"),
        (
            (Text(row["setting"]), value(row["value"]), Text(row["origin"]))
            for row in document["settings"]
        ),
    )


def statements(document: Mapping[str, Any]) -> RenderableType:
    """Show one statement as it is sent, or the names of all."""
    if "sql" in document:
        return Syntax(document["sql"], "sql", theme="ansi_dark", background_color="default")
    return table(
        ("name", "about"),
        ((Text(row["name"]), Text(row["about"])) for row in document["statements"]),
        whole=("name",),
    )


def _described(job: Mapping[str, Any]) -> RenderableType:
    fields = [(field, value(known)) for field, known in job.items() if field != "input"]
    schema = json.dumps(job["input"], indent=2, ensure_ascii=False)
    return Group(pairs(fields), Text(""), shown(schema))
