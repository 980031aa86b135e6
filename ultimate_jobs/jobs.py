"""The package's own jobs, declared and discovered like any app's: the purge, and the fold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.retry import Retry
from ultimate_jobs.core.spec import NO_TENANT
from ultimate_jobs.definitions.context import Run
from ultimate_jobs.definitions.job import job
from ultimate_jobs.definitions.task import Entries, task
from ultimate_jobs.errors import ConfigInvalid
from ultimate_jobs.operate import retention


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The input of a job that needs none."""


def _queue() -> str:
    try:
        return get_settings().maintenance_queue
    except ConfigInvalid:
        return "default"  # the system checks report the settings; nothing starts over them


@job(
    name="ultimate_jobs.purge",
    input=Upkeep,
    tenant=NO_TENANT,
    idempotency_key=lambda i: "purge",
    retry=Retry(attempts=3, delay="1m"),
    queue=_queue(),
)
def purge(run: Run[Upkeep]) -> dict[str, int]:
    """Delete what is past its retention, one target per step, by one reading of the clock."""
    now = datetime.fromisoformat(
        run.step("clock", lambda: retention.clock().isoformat(), returns=str)
    )
    go_on = run.signal.raise_if_aborted
    gone: dict[str, int] = {}
    for target in retention.targets():
        gone[target.name] = run.step(target.name, partial(target.purge, now, go_on), returns=int)
    return gone


@job(
    name="ultimate_jobs.fold_counters",
    input=Upkeep,
    tenant=NO_TENANT,
    idempotency_key=lambda i: "fold",
    retry=Retry(attempts=3, delay="1m"),
    queue=_queue(),
)
def fold_counters(run: Run[Upkeep]) -> int:
    """Fold counters that are past their tier into longer buckets."""
    return retention.fold(go_on=run.signal.raise_if_aborted)


@task(name="ultimate_jobs.purge", cron="7 * * * *", tz="UTC")
def hourly_purge(occurrence: datetime) -> Entries:
    """Purge once an hour."""
    return [(purge, Upkeep())]


@task(name="ultimate_jobs.fold_counters", cron="*/5 * * * *", tz="UTC")
def regular_fold(occurrence: datetime) -> Entries:
    """Fold once in every bucket of the second tier."""
    return [(fold_counters, Upkeep())]
