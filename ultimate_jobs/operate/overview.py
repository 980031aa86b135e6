"""The whole at a glance: queues, outbox, workers, and what ended lately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.records import QueueDepth
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import OutboxEntry
from ultimate_jobs.operate.counters import totals
from ultimate_jobs.operate.inspection import STAGED, iso
from ultimate_jobs.operate.pauses import QUEUE
from ultimate_jobs.operate.redaction import first_words
from ultimate_jobs.operate.stranded import stranded_jobs
from ultimate_jobs.operate.workers import workers

CAP = 10_001
"""Rows that one count reads: a count of 10,001 means more than 10,000."""

MAX_STAGED_ROWS = 200


def overview(period: str = "1h") -> dict[str, Any]:
    """Answer everything that an operator looks at first, in five statements."""
    return {
        "queues": queue_stats(),
        "outbox": outbox_backlog(),
        "stranded": stranded_jobs(),
        "workers": workers(),
        "period": period,
        "ended": totals(period),
    }


def queue_stats(only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Answer what each queue holds and whether it is paused, by name, in one statement."""
    return [_queue(depth) for depth in queue_depths() if not only or depth.queue in only]


def queue_depths() -> list[QueueDepth]:
    """Answer what each queue holds, by name, in one statement."""
    return get_driver().operator.queues(CAP)


def queue_demand(only: Sequence[str] = ()) -> dict[str, Any]:
    """Answer how many bodies each queue could keep busy now, in one statement.

    What may be claimed and what runs, each counted up to ``CAP``: a fleet with so many bodies has
    one for every job. A queue that is asked for is answered also when it has nothing.
    """
    found = get_driver().operator.demand(CAP)
    queues = {name: found.get(name, 0) for name in only or found}
    return {"queues": queues, "demand": sum(queues.values())}


def _queue(depth: QueueDepth) -> dict[str, Any]:
    row = asdict(depth)
    pause = {
        "kind": QUEUE,
        "name": depth.queue,
        "paused_at": iso(row.pop("paused_at")),
        "paused_by": row.pop("paused_by"),
        "reason": row.pop("pause_reason"),
    }
    return {**row, "paused": None if depth.paused_at is None else pause}


def outbox_backlog() -> dict[str, Any]:
    """Answer what waits in the outbox, and for how long, in one statement."""
    backlog = get_driver().operator.backlog(CAP)
    return {**asdict(backlog), "capped": backlog.waiting >= CAP}


def counts(queues: Sequence[Mapping[str, Any]], outbox: Mapping[str, Any]) -> dict[str, int]:
    """Sum up over all queues what waits and runs, and what the outbox holds."""
    kinds = ("ready", "delayed", "standing_by", "running", "suspended")
    return {
        STAGED: outbox["waiting"],
        **{kind: sum(queue[kind] for queue in queues) for kind in kinds},
    }


def staged_rows(limit: int = MAX_STAGED_ROWS) -> list[dict[str, Any]]:
    """Answer the rows that wait in the outbox, the oldest first."""
    rows: QuerySet[OutboxEntry] = OutboxEntry.objects.using(get_settings().database)
    rows = rows.filter(published_at=None).order_by("staged_at", "id").defer("input")
    return [
        {
            "id": str(row.id),
            "name": row.name,
            "queue": row.queue,
            "idempotency_key": row.idempotency_key,
            "tenant_id": row.tenant_id,
            "staged_at": iso(row.staged_at),
            "refusals": row.refusals,
            "retry_at": iso(row.retry_at),
            "last_error": first_words(row.last_error),
        }
        for row in rows[: min(limit, MAX_STAGED_ROWS)]
    ]
