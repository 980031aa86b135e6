"""Jobs: a page of them, one with its steps, and what a verb did to many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ultimate_jobs.management.screens.text import (
    first_line,
    instant,
    number,
    pairs,
    shown,
    state,
    table,
    value,
    words,
)


def page(listing: Mapping[str, Any]) -> RenderableType:
    """Show a page of jobs under the counts, and the newest dead letters below it."""
    counts = "   ".join(
        f"{words(kind)} {number(count, capped=True)}" for kind, count in listing["counts"].items()
    )
    parts: list[RenderableType] = [Text(counts), Text(""), _jobs(listing["jobs"])]
    if not listing["complete"]:
        parts += [Text(""), Text(_ended(listing))]
    elif listing["next"]:
        parts += [Text(""), Text(f"more: --after {listing['next']}")]
    if listing["dead"]:
        parts += [Text(""), Text("dead", style="bold red"), _dead(listing["dead"])]
    return Group(*parts)


def details(job: Mapping[str, Any]) -> RenderableType:
    """Show everything about one job."""
    fields = [
        (field, state(known) if field == "state" else value(known))
        for field, known in job.items()
        if known not in (None, []) and field not in ("last_error", "steps")
    ]
    parts: list[RenderableType] = [pairs(fields)]
    if job["steps"]:
        parts += [Text(""), _steps(job["steps"])]
    if job["last_error"]:
        parts += [Text(""), shown(job["last_error"])]
    return Group(*parts)


def moved(document: Mapping[str, Any]) -> RenderableType:
    """Show the job that a verb moved, or what it did to many."""
    if "verb" not in document:
        return details(document)
    would = "would " if document["dry_run"] else ""
    more = "+" if document["capped"] else ""
    lines: list[RenderableType] = [
        Text(
            f"{would}{document['verb']}: {document['affected']:,} jobs, "
            f"{document['remaining']:,}{more} remain"
        )
    ]
    if document["sample"]:
        lines += [Text(""), _jobs(document["sample"])]
    if document["next"]:
        lines += [Text(""), Text(f"further jobs: --after {document['next']}")]
    return Group(*lines)


def _jobs(jobs: Sequence[Mapping[str, Any]]) -> RenderableType:
    if not jobs:
        return Text("no jobs")
    return table(
        ("id", "name", "queue", "state", "attempt", "run at", "key", "error"),
        (
            (
                Text(job["id"]),
                shown(job["name"]),
                shown(job["queue"]),
                state("standing by" if job["standing_by"] else job["state"]),
                Text(f"{job['attempt']}/{job['max_attempts']}"),
                instant(job["run_at"]),
                shown(job["idempotency_key"]),
                first_line(job["last_error"]),
            )
            for job in jobs
        ),
        whole=("id", "state", "run at"),
    )


def _dead(jobs: Sequence[Mapping[str, Any]]) -> RenderableType:
    return table(
        ("failed at", "name", "error", "retry"),
        (
            (
                instant(job["failed_at"]),
                shown(job["name"]),
                first_line(job["last_error"]),
                Text(job["retry"]),
            )
            for job in jobs
        ),
        whole=("failed at", "retry"),
    )


def _ended(listing: Mapping[str, Any]) -> str:
    more = f"; go on with --after {listing['next']}" if listing["next"] else ""
    return f"{listing['searched']:,} jobs were looked at{more}"


def _steps(steps: Sequence[Mapping[str, Any]]) -> RenderableType:
    with_outputs = "output" in steps[0]
    headings = ("step", "status", "runs", "started at", "took", "until", "error")
    return table(
        (*headings, "output") if with_outputs else headings,
        (
            (
                shown(step["name"]),
                state(step["status"]),
                Text(str(step["attempts"])),
                instant(step["started_at"]),
                Text("" if step["duration_ms"] is None else f"{step['duration_ms']} ms"),
                instant(step["wake_at"]),
                first_line(step["error"]),
                *((value(step["output"]),) if with_outputs else ()),
            )
            for step in steps
        ),
    )
