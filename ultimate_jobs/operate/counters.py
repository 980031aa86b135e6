"""What ended, by job and by time, read from the counters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django.db.models import F, QuerySet, Sum
from django.db.models.functions import Now

from ultimate_jobs.conf import get_settings
from ultimate_jobs.errors import InvariantError
from ultimate_jobs.models import Counter
from ultimate_jobs.operate.inspection import iso

PERIODS: Mapping[str, timedelta] = MappingProxyType(
    {
        "1h": timedelta(hours=1),
        "24h": timedelta(hours=24),
        "7d": timedelta(days=7),
        "30d": timedelta(days=30),
    }
)
MOST_ROWS = 10_000
_SUMS = ("done", "retried", "failed", "dead", "duration_ms")


def counters(period: str, name: str | None = None) -> list[dict[str, Any]]:
    """Sum up the endings of a period, job by job, the busiest first.

    Raises:
        InvariantError: there is no such period.

    """
    sums = {f"total_{column}": Sum(column) for column in _SUMS}
    rows = _since(period, name).values("name").annotate(**sums)
    rows = rows.order_by(F("total_done").desc(), "name")
    return [{"name": row["name"], **_totals(row)} for row in rows[:MOST_ROWS]]


def totals(period: str, name: str | None = None) -> dict[str, Any]:
    """Sum up the endings of a period over all jobs.

    Raises:
        InvariantError: there is no such period.

    """
    sums = {f"total_{column}": Sum(column) for column in _SUMS}
    return _totals(_since(period, name).aggregate(**sums))


def counter_buckets(period: str, name: str | None = None) -> list[dict[str, Any]]:
    """Sum up the endings of a period, bucket by bucket, the oldest first; empty ones are left out.

    Raises:
        InvariantError: there is no such period.

    """
    sums = {f"total_{column}": Sum(column) for column in _SUMS}
    rows = _since(period, name).values("bucket").annotate(**sums).order_by("-bucket")
    newest = list(rows[:MOST_ROWS])
    return [{"bucket": iso(row["bucket"]), **_totals(row)} for row in reversed(newest)]


def _since(period: str, name: str | None) -> QuerySet[Counter]:
    if period not in PERIODS:
        raise InvariantError(f"A period is one of {', '.join(PERIODS)}.")
    rows = Counter.objects.using(get_settings().database)
    rows = rows.filter(bucket__gte=Now() - PERIODS[period])
    return rows if name is None else rows.filter(name=name)


def _totals(row: Mapping[str, Any]) -> dict[str, Any]:
    sums = {column: int(row[f"total_{column}"] or 0) for column in _SUMS}
    ended = sums["done"] + sums["retried"] + sums["failed"] + sums["dead"]
    return {**sums, "mean_ms": round(sums["duration_ms"] / ended) if ended else None}
