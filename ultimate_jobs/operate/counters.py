"""What ended, by job and by time, read from the counters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from django.db.models import DateTimeField, F, Func, QuerySet, Sum, Value

from ultimate_jobs.conf import get_settings
from ultimate_jobs.errors import InvariantError
from ultimate_jobs.models import Counter
from ultimate_jobs.operate.inspection import iso
from ultimate_jobs.process.clock import database_now

PERIODS: Mapping[str, timedelta] = MappingProxyType(
    {
        "1h": timedelta(hours=1),
        "24h": timedelta(hours=24),
        "7d": timedelta(days=7),
        "30d": timedelta(days=30),
    }
)
SLOTS: Mapping[str, timedelta] = MappingProxyType(
    {
        "1h": timedelta(minutes=1),
        "24h": timedelta(minutes=30),
        "7d": timedelta(hours=3),
        "30d": timedelta(hours=12),
    }
)
"""How wide a slot is when a period is drawn: each period has 48 to 60 of them."""

SLOT_ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
"""Where slots are counted from."""

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


def counter_slots(period: str) -> dict[str, Any]:
    """Sum up the endings of a period, slot by slot, the oldest first; empty ones are left out.

    ``now`` is the database's, so that a reader can lay out the slots that are not there; with no
    slot at all it is ``None``.

    Raises:
        InvariantError: there is no such period.

    """
    sums = {f"total_{column}": Sum(column) for column in _SUMS}
    slot = Func(
        Value(SLOTS.get(period)),
        F("bucket"),
        Value(SLOT_ORIGIN),
        function="date_bin",
        output_field=DateTimeField(),
    )
    rows = _since(period, None).annotate(slot=slot, at=database_now()).values("slot", "at")
    found = list(rows.annotate(**sums).order_by("slot"))
    return {
        "now": iso(found[0]["at"]) if found else None,
        "slots": [{"slot": iso(row["slot"]), **_totals(row)} for row in found],
    }


def _since(period: str, name: str | None) -> QuerySet[Counter]:
    if period not in PERIODS:
        raise InvariantError(f"A period is one of {', '.join(PERIODS)}.")
    rows = Counter.objects.using(get_settings().database)
    rows = rows.filter(bucket__gte=database_now() - PERIODS[period])
    return rows if name is None else rows.filter(name=name)


def _totals(row: Mapping[str, Any]) -> dict[str, Any]:
    sums = {column: int(row[f"total_{column}"] or 0) for column in _SUMS}
    ended = sums["done"] + sums["retried"] + sums["failed"] + sums["dead"]
    return {**sums, "mean_ms": round(sums["duration_ms"] / ended) if ended else None}
