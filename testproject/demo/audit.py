"""The verdict: what the customers were told, the orders, the ledger and the jobs, held together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set as AbstractSet
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Manager

from testproject.shop.models import LedgerEntry, Order, OrderState
from ultimate_jobs.core.states import LIVE, JobState
from ultimate_jobs.models import Job, OutboxEntry


@dataclass(frozen=True, slots=True)
class Told:
    """What the customers were told of their orders, and whose jobs a killed worker held."""

    accepted: AbstractSet[str]
    refused: AbstractSet[str]
    interrupted: AbstractSet[UUID]


@dataclass(frozen=True, slots=True)
class Audit:
    """What the tables say. The last three must be nothing.

    Attributes:
        ghosts: effects, jobs or orders of what was rolled back.
        lost: orders that were accepted and are gone, unpaid or not in the ledger.
        duplicates: effects asked for twice, orders with two jobs, and second runs of a job that no
            killed worker explains.

    """

    committed: int
    rolled_back: int
    completed: int
    ghosts: int
    lost: int
    duplicates: int


def audit(told: Told) -> Audit:
    orders = set(Order.objects.values_list("reference", flat=True))
    paid = set(Order.objects.filter(state=OrderState.PAID).values_list("reference", flat=True))
    booked = set(LedgerEntry.objects.values_list("reference", flat=True))
    enqueued = [*_references(Job.objects), *_references(OutboxEntry.objects)]
    return Audit(
        committed=len(orders),
        rolled_back=len(told.refused - orders),
        completed=Job.objects.filter(state=JobState.DONE).count(),
        ghosts=len((booked | set(enqueued)) - orders) + len(orders & told.refused),
        lost=len(told.accepted - orders) + len(orders - (paid & booked)),
        duplicates=_repeats() + _surplus(enqueued) + _unexplained(told.interrupted),
    )


def unfinished() -> int:
    """Count the jobs that are staged or have yet to end."""
    staged = OutboxEntry.objects.filter(published_at=None).count()
    return staged + Job.objects.filter(state__in=LIVE).count()


def completed() -> int:
    return Job.objects.filter(state=JobState.DONE).count()


def held_by(pid: int) -> frozenset[UUID]:
    """Answer the jobs that the worker with this process id is running."""
    held = Job.objects.filter(state=JobState.RUNNING, claimed_by__contains=f":{pid}:")
    return frozenset(held.values_list("pk", flat=True))


def _references(rows: Manager[Job] | Manager[OutboxEntry]) -> list[str]:
    return [row["reference"] for row in rows.values_list("input", flat=True)]


def _repeats() -> int:
    return sum(LedgerEntry.objects.values_list("repeats", flat=True))


def _surplus(references: Iterable[str]) -> int:
    return sum(times - 1 for times in Counter(references).values())


def _unexplained(interrupted: AbstractSet[UUID]) -> int:
    return Job.objects.filter(attempt__gt=1).exclude(pk__in=interrupted).count()
