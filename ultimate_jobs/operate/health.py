"""Whether the queue keeps up, by limits that a probe names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ultimate_jobs.operate.overview import outbox_backlog, queue_stats
from ultimate_jobs.operate.stranded import stranded_jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is still healthy; a limit that is left out is not looked at.

    Attributes:
        max_oldest: how long a due job may wait.
        max_dead: dead jobs of one queue.
        max_outbox_age: how long a committed row may wait in the outbox.
        max_stranded: jobs of one queue that no living worker can take.
        queues: only these; all by default.

    """

    max_oldest: timedelta | None = None
    max_dead: int | None = None
    max_outbox_age: timedelta | None = None
    max_stranded: int | None = None
    queues: tuple[str, ...] = ()


def health(limits: Limits) -> dict[str, Any]:
    """Compare what the queues and the outbox hold with the limits."""
    queues = queue_stats(limits.queues)
    outbox = outbox_backlog()
    stranded = stranded_jobs(limits.queues)
    problems = [
        *_queue_problems(queues, limits),
        *_outbox_problems(outbox, limits),
        *_stranded_problems(stranded, limits),
    ]
    return {
        "healthy": not problems,
        "problems": problems,
        "queues": queues,
        "outbox": outbox,
        "stranded": stranded,
    }


def _queue_problems(queues: list[dict[str, Any]], limits: Limits) -> Iterator[dict[str, Any]]:
    for queue in queues:
        oldest = queue["oldest_ready_seconds"] or 0.0
        if limits.max_oldest is not None and oldest > limits.max_oldest.total_seconds():
            yield _problem("max_oldest", queue["queue"], oldest, limits.max_oldest.total_seconds())
        if limits.max_dead is not None and queue["dead"] > limits.max_dead:
            yield _problem("max_dead", queue["queue"], queue["dead"], limits.max_dead)


def _outbox_problems(outbox: dict[str, Any], limits: Limits) -> Iterator[dict[str, Any]]:
    oldest = outbox["oldest_seconds"] or 0.0
    if limits.max_outbox_age is not None and oldest > limits.max_outbox_age.total_seconds():
        yield _problem("max_outbox_age", None, oldest, limits.max_outbox_age.total_seconds())


def _stranded_problems(stranded: list[dict[str, Any]], limits: Limits) -> Iterator[dict[str, Any]]:
    counts: Counter[str] = Counter()
    for group in stranded:
        counts[group["queue"]] += group["count"]
    for queue, count in counts.items():
        if limits.max_stranded is not None and count > limits.max_stranded:
            yield _problem("max_stranded", queue, count, limits.max_stranded)


def _problem(limit: str, queue: str | None, value: float, most: float) -> dict[str, Any]:
    return {"limit": limit, "queue": queue, "value": value, "most": most}
