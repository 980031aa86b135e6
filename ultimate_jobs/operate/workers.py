"""The worker processes that show signs of life, and those that stopped to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from ultimate_jobs.core.records import Fleet
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.operate.inspection import iso

MOST_WORKERS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One worker process; every field is a column of the answer.

    With ``alive`` false its sign of life has lapsed: what it holds runs again elsewhere.
    """

    id: str
    host: str
    pid: int
    state: str
    queues: Sequence[str]
    concurrency: int
    running: Sequence[str]
    alive: bool
    started_at: str
    beat_at: str
    expires_at: str


def workers() -> list[dict[str, Any]]:
    """Answer the worker processes, the last sign of life first, in one statement."""
    return workers_of(get_driver().operator.fleet(workers=MOST_WORKERS, tasks=None))


def workers_of(fleet: Fleet) -> list[dict[str, Any]]:
    """Answer the same of a fleet that has been read."""
    return [asdict(WorkerRow(**_in_utc(row))) for row in fleet.workers]


def _in_utc(row: Mapping[str, Any]) -> dict[str, Any]:
    instants = ("started_at", "beat_at", "expires_at")
    return {**row, **{name: iso(datetime.fromisoformat(row[name])) for name in instants}}
