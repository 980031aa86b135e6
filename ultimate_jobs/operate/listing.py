"""What ``jobs list`` shows: a page, the counts above it, and the newest dead letters, always."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ultimate_jobs.core.records import QueueDepth
from ultimate_jobs.core.selection import Selection
from ultimate_jobs.core.states import JobState
from ultimate_jobs.operate.dead import dead_letter
from ultimate_jobs.operate.inspection import Filter, checked_page, listed
from ultimate_jobs.operate.overview import counts, outbox_backlog, queue_depths
from ultimate_jobs.operate.search import is_crowded, search

SHOWN_DEAD = 5
DEAD_WINDOW = 1_000
"""Jobs that ended badly among which the newest dead ones are looked for."""


def listing(wanted: Filter) -> dict[str, Any]:
    """Answer a page of jobs under the counts of what waits and runs, in five statements.

    Raises:
        PageInvalid, InvariantError: as ``page_of_jobs``.

    """
    checked_page(wanted)
    depths = queue_depths()
    outbox = outbox_backlog()
    found = search(
        wanted,
        limit=wanted.limit,
        after=wanted.after,
        before=wanted.before,
        crowded=is_crowded(_live(depths, wanted.queue)),
    )
    dead = search(Selection(states=(JobState.DEAD,)), limit=SHOWN_DEAD, window=DEAD_WINDOW)
    rows = {row["id"]: row for row in listed([*found.ids, *dead.ids])}
    return {
        "jobs": [rows[str(job)] for job in found.ids if str(job) in rows],
        "counts": counts([asdict(depth) for depth in depths], outbox),
        "capped": outbox["capped"] or any(depth.capped for depth in depths),
        "dead": [dead_letter(rows[str(job)]) for job in dead.ids if str(job) in rows],
        "next": found.older,
        "previous": found.newer,
        "searched": found.searched,
        "complete": found.complete,
    }


def _live(depths: Sequence[QueueDepth], queue: str | None) -> int:
    waiting = sum(
        depth.ready + depth.delayed + depth.standing_by + depth.suspended
        for depth in depths
        if queue is None or depth.queue == queue
    )
    return waiting + sum(depth.running for depth in depths)
