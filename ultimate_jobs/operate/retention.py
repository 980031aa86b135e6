"""What is kept how long: the purge and the fold of the counters, a batch at a time.

A pass goes by one reading of the database's clock. ``go_on`` is called between batches; what it
raises ends the pass, and what is done stays done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

from django.db.models import QuerySet

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.states import JobState
from ultimate_jobs.core.tiers import TIERS
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import Counter, Event, Job, Lease, OutboxEntry

PURGE_BATCH = 1_000
"""Rows that one statement deletes or folds."""


LEASES_KEPT = timedelta(days=1)
"""How long a slot that ran out is kept, for whoever asks what happened."""


MOST_COUNTED = 10_001
"""Where a count of what would be deleted stops."""

_NOT_DONE = (JobState.DEAD, JobState.FAILED, JobState.CANCELLED)


def nothing() -> None:
    """Go on."""


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of row, how long it is kept, and the statement that deletes a batch of it."""

    name: str
    keep: timedelta
    delete: Callable[[datetime, int], int]

    def purge(self, now: datetime, go_on: Callable[[], None] = nothing) -> int:
        """Delete what is past its time; answer how many rows that were."""
        return _all(partial(self.delete, now - self.keep, PURGE_BATCH), go_on)


def clock() -> datetime:
    """Answer the instant that a pass goes by."""
    return get_driver().retention.clock()


def targets() -> Sequence[Target]:
    """List what a purge deletes, in its order; never a live row."""
    settings = get_settings()
    store = get_driver().retention
    kept = dict.fromkeys(_NOT_DONE, settings.dead_retention)
    return (
        *(
            Target(state.value, keep, partial(store.delete_jobs, state))
            for state, keep in {JobState.DONE: settings.done_retention, **kept}.items()
        ),
        Target("events", timedelta(0), store.delete_events),
        Target("receipts", settings.done_retention, store.delete_receipts),
        Target("leases", LEASES_KEPT, store.delete_leases),
        Target("counters", TIERS[-1].keep, partial(store.delete_counters, TIERS[-1].minutes)),
    )


def purge(now: datetime | None = None, go_on: Callable[[], None] = nothing) -> dict[str, int]:
    """Run a whole pass; answer how many rows of each target were deleted."""
    instant = now or clock()
    deleted = {target.name: target.purge(instant, go_on) for target in targets()}
    return {**deleted, "buckets": purge_buckets(go_on)}


def expired(now: datetime | None = None) -> dict[str, int]:
    """Count what a purge would delete now, of each target up to ``MOST_COUNTED``; change nothing."""
    instant = now or clock()
    settings = get_settings()
    kept = {JobState.DONE: settings.done_retention}
    kept |= dict.fromkeys(_NOT_DONE, settings.dead_retention)
    rows: dict[str, QuerySet[Any]] = {
        state.value: Job.objects.filter(state=state, updated_at__lt=instant - keep)
        for state, keep in kept.items()
    }
    rows |= {
        "events": Event.objects.filter(expires_at__lt=instant),
        "receipts": OutboxEntry.objects.filter(published_at__lt=instant - settings.done_retention),
        "leases": Lease.objects.filter(expires_at__lt=instant - LEASES_KEPT),
        "counters": Counter.objects.filter(
            span=TIERS[-1].minutes, bucket__lt=instant - TIERS[-1].keep
        ),
    }
    database = settings.database
    return {
        name: found.using(database).values("pk")[:MOST_COUNTED].count()
        for name, found in rows.items()
    }


def fold(now: datetime | None = None, go_on: Callable[[], None] = nothing) -> int:
    """Fold counters that are past their tier into the next; answer how many rows were folded."""
    instant = now or clock()
    store = get_driver().retention
    return sum(
        _all(
            partial(
                store.fold_counters, tier.minutes, longer.minutes, instant - tier.keep, PURGE_BATCH
            ),
            go_on,
        )
        for tier, longer in pairwise(TIERS)
    )


def purge_buckets(go_on: Callable[[], None] = nothing) -> int:
    """Delete token buckets that are full again: they are as good as none."""
    store = get_driver().rate_limits
    deleted, after = 0, ""
    while store is not None:
        done = store.purge(PURGE_BATCH, after)
        deleted += done.deleted
        if done.after is None:
            break
        after = done.after
        go_on()
    return deleted


def _all(batch: Callable[[], int], go_on: Callable[[], None]) -> int:
    total = 0
    while True:
        count = batch()
        total += count
        if count < PURGE_BATCH:
            return total
        go_on()
