"""What a terminal shows. Every stored text is shown as text, never as markup."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_STATE_STYLES = {
    "ready": "cyan",
    "delayed": "blue",
    "running": "yellow",
    "suspended": "magenta",
    "done": "green",
    "failed": "red",
    "dead": "bold red",
    "cancelled": "dim",
    "staged": "cyan",
    "started": "yellow",
    "completed": "green",
    "sleeping": "blue",
    "waiting": "magenta",
}


def job_table(jobs: Sequence[Mapping[str, Any]], counts: Mapping[str, int]) -> RenderableType:
    """Show a page of jobs under the counts of what waits and runs."""
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "name", "queue", "state", "attempt", "run at", "key", "error"):
        table.add_column(heading, overflow="fold", no_wrap=heading in {"id", "state", "run at"})
    for job in jobs:
        table.add_row(
            Text(job["id"]),
            shown(job["name"]),
            shown(job["queue"]),
            _state(job["state"]),
            Text(f"{job['attempt']}/{job['max_attempts']}"),
            Text(job["run_at"][:19] + "Z"),
            shown(job["idempotency_key"]),
            shown((job["last_error"] or "").partition("\n")[0][:80]),
        )
    waiting = "   ".join(f"{state} {count}" for state, count in counts.items())
    return Group(Text(waiting), Text(""), table if jobs else Text("no jobs"))


def job_details(job: Mapping[str, Any]) -> RenderableType:
    """Show everything about one job."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column("field", style="dim", no_wrap=True)
    table.add_column("value", overflow="fold")
    for field, value in job.items():
        if value is None or value == [] or field in ("last_error", "steps"):
            continue
        table.add_row(field, _state(value) if field == "state" else shown(_plain(value)))
    parts: list[RenderableType] = [table]
    if job["steps"]:
        parts += [Text(""), _step_table(job["steps"])]
    if job["last_error"]:
        parts += [Text(""), shown(job["last_error"])]
    return Group(*parts)


def _step_table(steps: Sequence[Mapping[str, Any]]) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    for heading in ("step", "status", "runs", "started at", "took", "until", "error"):
        table.add_column(heading, overflow="fold")
    for step in steps:
        took = step["duration_ms"]
        table.add_row(
            shown(step["name"]),
            _state(step["status"]),
            Text(str(step["attempts"])),
            Text(step["started_at"][:19] + "Z"),
            Text("" if took is None else f"{took} ms"),
            Text((step["wake_at"] or "")[:19]),
            shown((step["error"] or "").partition("\n")[0][:80]),
        )
    return table


def shown(text: str) -> Text:
    """Make a stored text safe for a terminal: control characters are written out."""
    return Text("".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text))


def _state(state: str) -> Text:
    return Text(state, style=_STATE_STYLES.get(state, ""))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
