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
    """One kind of row; ``purge`` deletes, by the instant of the pass, what is past its time."""

    name: str
    purge: Callable[[datetime, Callable[[], None]], int]


def clock() -> datetime:
    """Answer the instant that a pass goes by."""
    return get_driver().retention.clock()


def targets() -> Sequence[Target]:
    """List what a purge deletes, in its order; never a live row."""
    store = get_driver().retention
    longest = TIERS[-1]
    return (
        *(
            _older_than(state.value, keep, partial(store.delete_jobs, state))
            for state, keep in _retentions().items()
        ),
        _older_than("events", timedelta(0), store.delete_events),
        _older_than("receipts", get_settings().done_retention, store.delete_receipts),
        _older_than("leases", LEASES_KEPT, store.delete_leases),
        _older_than("counters", longest.keep, partial(store.delete_counters, longest.minutes)),
        Target("buckets", _purge_buckets),
    )


def purge(now: datetime | None = None, go_on: Callable[[], None] = nothing) -> dict[str, int]:
    """Run a whole pass; answer how many rows of each target were deleted."""
    instant = now or clock()
    return {target.name: target.purge(instant, go_on) for target in targets()}


def expired(now: datetime | None = None) -> dict[str, int]:
    """Count what a purge would delete now, each up to ``MOST_COUNTED``; change nothing.

    Token buckets are not counted: a full one and none are the same.
    """
    instant = now or clock()
    settings = get_settings()
    rows: dict[str, QuerySet[Any]] = {
        state.value: Job.objects.filter(state=state, updated_at__lt=instant - keep)
        for state, keep in _retentions().items()
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


def _retentions() -> dict[JobState, timedelta]:
    settings = get_settings()
    return {
        JobState.DONE: settings.done_retention,
        **dict.fromkeys(_NOT_DONE, settings.dead_retention),
    }


def _older_than(name: str, keep: timedelta, delete: Callable[[datetime, int], int]) -> Target:
    def purge(now: datetime, go_on: Callable[[], None] = nothing) -> int:
        return _all(partial(delete, now - keep, PURGE_BATCH), go_on)

    return Target(name, purge)


def _purge_buckets(now: datetime, go_on: Callable[[], None]) -> int:
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
