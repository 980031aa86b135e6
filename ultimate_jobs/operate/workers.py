"""The worker processes that show signs of life, and those that stopped to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.db.models import BooleanField, Case, F, Value, When
from django.db.models.functions import Now

from ultimate_jobs.conf import get_settings
from ultimate_jobs.models import Worker
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
    started_at: str | None
    beat_at: str | None
    expires_at: str | None


def workers() -> list[dict[str, Any]]:
    """Answer the worker processes, the last sign of life first."""
    rows = (
        Worker.objects.using(get_settings().database)
        .annotate(
            alive=Case(
                When(expires_at__gt=Now(), then=Value(True)),
                default=Value(False),
                output_field=BooleanField(),
            )
        )
        .order_by(F("beat_at").desc(), "id")
    )
    return [asdict(_row(row)) for row in rows[:MOST_WORKERS]]


def _row(row: Any) -> WorkerRow:
    return WorkerRow(
        id=row.id,
        host=row.host,
        pid=row.pid,
        state=row.state,
        queues=row.queues,
        concurrency=row.concurrency,
        running=row.running,
        alive=row.alive,
        started_at=iso(row.started_at),
        beat_at=iso(row.beat_at),
        expires_at=iso(row.expires_at),
    )
