"""The whole: queues, outbox, workers, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ultimate_jobs.management.screens.text import (
    first_line,
    instant,
    number,
    seconds,
    shown,
    table,
    value,
    words,
)

_COUNTS = ("ready", "delayed", "standing_by", "running", "suspended", "failed", "dead")


def whole(document: Mapping[str, Any]) -> RenderableType:
    """Show everything at a glance."""
    return Group(
        _queues(document["queues"]),
        Text(""),
        _backlog(document["outbox"]),
        *map(_stranded, document["stranded"]),
        Text(""),
        _workers(document["workers"]),
        Text(""),
        _ended(document["period"], document["ended"]),
    )


def snapshots(document: Mapping[str, Any]) -> RenderableType:
    """Show several looks, one below the other."""
    return Group(*(whole(look) for look in document["snapshots"]))


def workers(document: Mapping[str, Any]) -> RenderableType:
    """Show the workers."""
    return _workers(document["workers"])


def demanded(document: Mapping[str, Any]) -> RenderableType:
    """Show how many bodies could be busy."""
    rows = [*document["queues"].items(), ("in all", document["demand"])]
    return table(("queue", "demand"), ((shown(name), Text(f"{n:,}")) for name, n in rows))


def outbox(document: Mapping[str, Any]) -> RenderableType:
    """Show what waits in the outbox."""
    rows = table(
        ("id", "staged at", "name", "queue", "refusals", "error"),
        (
            (
                Text(row["id"]),
                instant(row["staged_at"]),
                shown(row["name"]),
                shown(row["queue"]),
                Text(str(row["refusals"])),
                first_line(row["last_error"]),
            )
            for row in document["rows"]
        ),
        whole=("id", "staged at"),
    )
    below: list[RenderableType] = [Text(""), rows] if document["rows"] else []
    return Group(_backlog(document), *below)


def purged(document: Mapping[str, Any]) -> RenderableType:
    """Show what a purge deleted, or would."""
    done = "would delete" if document["dry_run"] else "deleted"
    return table(
        ("what", done),
        ((Text(name), number(count)) for name, count in document["purged"].items()),
    )


def paused(document: Mapping[str, Any]) -> RenderableType:
    """Show what a pause or a resume did, and everything that is paused."""
    done = {"pause": "paused", "resume": "resumed"}[document["verb"]]
    was = "" if document["changed"] else " (it was already)"
    rows = table(
        ("paused", "since", "by", "why"),
        (
            (
                shown(row["name"]),
                instant(row["paused_at"]),
                shown(row["paused_by"] or ""),
                shown(row["reason"] or ""),
            )
            for row in document["pauses"]
        ),
    )
    head = shown(f"{document['kind']} {document['name']} is {done}{was}")
    below: list[RenderableType] = [Text(""), rows] if document["pauses"] else []
    return Group(head, *below)


def counted(document: Mapping[str, Any]) -> RenderableType:
    """Show what ended, by job, and bucket by bucket when asked for."""
    parts = [_endings("job", "name", document["jobs"]), Text("")]
    if "buckets" in document:
        parts += [_endings("minute", "bucket", document["buckets"]), Text("")]
    return Group(*parts, _ended(document["period"], document["total"]))


def healthy(document: Mapping[str, Any]) -> RenderableType:
    """Show whether all limits are kept, and those that are not."""
    if document["healthy"]:
        return Text("healthy", style="green")
    lines = [
        shown(
            f"{problem['limit']}: {problem['queue'] or 'outbox'} has {problem['value']:g}, "
            f"at most {problem['most']:g}"
        )
        for problem in document["problems"]
    ]
    return Group(Text("unhealthy", style="bold red"), *lines)


def _queues(queues: Sequence[Mapping[str, Any]]) -> RenderableType:
    if not queues:
        return Text("no jobs wait or run")
    return table(
        ("queue", *map(words, _COUNTS), "oldest ready", "paused"),
        (
            (
                shown(queue["queue"]),
                *(number(queue[kind], capped=queue["capped"]) for kind in _COUNTS),
                seconds(queue["oldest_ready_seconds"]),
                _pause(queue["paused"]),
            )
            for queue in queues
        ),
    )


def _pause(pause: Mapping[str, Any] | None) -> Text:
    if pause is None:
        return Text("")
    return shown(f"by {pause['paused_by'] or '?'}: {pause['reason'] or 'no reason given'}")


def _backlog(backlog: Mapping[str, Any]) -> RenderableType:
    waiting = number(backlog["waiting"], capped=backlog["capped"])
    oldest = backlog["oldest_seconds"]
    since = "" if oldest is None else f", the oldest for {seconds(oldest)}"
    return Text(f"outbox: {waiting} staged{since}, {backlog['refused']:,} refused")


def _stranded(group: Mapping[str, Any]) -> RenderableType:
    count = number(group["count"], capped=group["capped"])
    oldest = seconds(group["oldest_seconds"])
    line = shown(
        f"stranded: {count} of {group['name']} in {group['queue']}, the oldest for {oldest}: "
        f"{group['why']}"
    )
    line.stylize("bold red")
    return line


def _workers(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    if not rows:
        return Text("no workers")
    columns = list(rows[0])
    return table(
        [*map(words, columns)],
        ([_cell(column, row[column]) for column in columns] for row in rows),
    )


def _cell(column: str, plain: Any) -> Text:
    if plain is None:
        return Text("")
    if column.endswith("_at"):
        return instant(plain)
    if column == "running":
        return number(len(plain))
    if column == "queues":
        return shown(", ".join(plain))
    return Text("yes" if plain else "no") if isinstance(plain, bool) else value(plain)


def _endings(heading: str, key: str, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    kinds = ("done", "retried", "failed", "dead")
    return table(
        (heading, *kinds, "mean"),
        (
            (
                shown(row[key]),
                *(Text(f"{row[kind]:,}") for kind in kinds),
                Text("" if row["mean_ms"] is None else f"{row['mean_ms']} ms"),
            )
            for row in rows
        ),
    )


def _ended(period: str, ended: Mapping[str, Any]) -> RenderableType:
    kinds = ("done", "retried", "failed", "dead")
    return Text(f"last {period}: " + ", ".join(f"{ended[kind]:,} {kind}" for kind in kinds))
