"""The verdict: what customers were told, the shop's tables, the jobs and the partners' books, together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from django.db.models import F, Sum

from testproject.shop.models import LedgerEntry, Order, OrderState, Reservation, Stock
from ultimate_jobs.core.states import TERMINAL, JobState
from ultimate_jobs.models import Job, OutboxEntry


@dataclass(frozen=True, slots=True)
class Told:
    """What the customers were told of their orders, and which claims on jobs a killed worker held."""

    accepted: AbstractSet[str]
    refused: AbstractSet[str]
    interrupted: Mapping[UUID, int]


@dataclass(frozen=True, slots=True)
class Deed:
    """What a partner did for an order, by its own books."""

    reference: str
    key: str
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Books:
    """The books of the partners: what the gateway charged and what the carrier shipped."""

    charges: Sequence[Deed]
    parcels: Sequence[Deed]


@dataclass(frozen=True, slots=True)
class Audit:
    """What all of them say. `ghosts` to `uncompensated` must be nothing.

    Attributes:
        completed: orders that were delivered, paid once and booked once.
        compensated: orders that failed for good and were undone.
        ghosts: effects, jobs or orders of what was rolled back.
        lost: orders that were accepted and are gone, or that did not end in one of these two ways.
        duplicates: effects asked for twice, orders with two jobs, and second runs of a job that no
            killed worker explains.
        charged_twice: charges of an order beyond its first.
        uncompensated: what was charged, shipped or reserved and is kept without a delivered order.
        interrupted_and_resumed: jobs that a killed worker held and another one brought to an end.

    """

    committed: int
    rolled_back: int
    completed: int
    ghosts: int
    lost: int
    duplicates: int
    compensated: int
    charged_twice: int
    uncompensated: int
    interrupted_and_resumed: int

    @property
    def is_clean(self) -> bool:
        wrong = (self.ghosts, self.lost, self.duplicates, self.charged_twice, self.uncompensated)
        return not any(wrong) and self.completed + self.compensated == self.committed


def audit(told: Told, books: Books) -> Audit:
    shop = _Shop.read()
    completed = _completed(shop, books)
    compensated = {one for one in shop.cancelled if _is_compensated(one, shop)}
    named = {*shop.balance, *shop.enqueued, *_references(books.charges)}
    named |= set(_references(books.parcels))
    return Audit(
        committed=len(shop.orders),
        rolled_back=len(told.refused - shop.orders),
        completed=len(completed),
        ghosts=len(named - shop.orders) + len(shop.orders & told.refused),
        lost=len(told.accepted - shop.orders) + len(shop.orders - completed - compensated),
        duplicates=_repeats()
        + _surplus(shop.enqueued)
        + _surplus(_references(books.parcels))
        + _unexplained(told.interrupted),
        compensated=len(compensated),
        charged_twice=_surplus(_references(books.charges)),
        uncompensated=_kept(shop, books),
        interrupted_and_resumed=_resumed(told.interrupted),
    )


@dataclass(frozen=True, slots=True)
class _Shop:
    """The shop's tables, by the reference of an order."""

    orders: AbstractSet[str]
    delivered: AbstractSet[str]
    cancelled: AbstractSet[str]
    prices: Mapping[str, Decimal]
    balance: Mapping[str, Decimal]
    reserved: AbstractSet[str]
    states: Mapping[str, str]
    enqueued: Sequence[str]

    @classmethod
    def read(cls) -> _Shop:
        orders = list(Order.objects.values_list("reference", "state", "amount"))
        booked = LedgerEntry.objects.order_by().values_list("reference")
        jobs = list(Job.objects.order_by().values_list("input", "state"))
        staged = OutboxEntry.objects.order_by().values_list("input", flat=True)
        return cls(
            orders={reference for reference, _, _ in orders},
            delivered={one for one, state, _ in orders if state == OrderState.DELIVERED},
            cancelled={one for one, state, _ in orders if state == OrderState.CANCELLED},
            prices={reference: amount for reference, _, amount in orders},
            balance=dict(booked.annotate(balance=Sum("amount"))),
            reserved=set(Reservation.objects.values_list("order__reference", flat=True)),
            states={load["reference"]: state for load, state in jobs},
            enqueued=[load["reference"] for load in [*(load for load, _ in jobs), *staged]],
        )


def _completed(shop: _Shop, books: Books) -> set[str]:
    charged = set(_references(_standing(books.charges)))
    shipped = set(_references(_standing(books.parcels)))
    return {
        one
        for one in shop.delivered & shop.reserved & charged & shipped
        if shop.states.get(one) == JobState.DONE and shop.balance.get(one) == shop.prices[one]
    }


def _is_compensated(one: str, shop: _Shop) -> bool:
    return shop.states.get(one) == JobState.DEAD and not shop.balance.get(one, 0)


def _kept(shop: _Shop, books: Books) -> int:
    """Count what is not given back of orders that were not delivered, and goods nobody took."""
    standing = [*_standing(books.charges), *_standing(books.parcels)]
    kept = sum(deed.reference not in shop.delivered for deed in standing)
    return kept + len(shop.reserved - shop.delivered) + _missing_goods()


def _missing_goods() -> int:
    gone = Stock.objects.aggregate(gone=Sum(F("received") - F("left")))["gone"] or 0
    return abs(int(gone) - Reservation.objects.count())


def _repeats() -> int:
    """Count effects of the shop itself that happened again: bookings and reminders."""
    booked = LedgerEntry.objects.aggregate(times=Sum("repeats"))["times"] or 0
    nudged = Order.objects.filter(nudges__gt=1).aggregate(times=Sum(F("nudges") - 1))["times"] or 0
    return int(booked) + int(nudged)


def _surplus(references: Iterable[str]) -> int:
    return sum(times - 1 for times in Counter(references).values())


def _unexplained(interrupted: Mapping[UUID, int]) -> int:
    return Job.objects.filter(attempt__gt=1).exclude(pk__in=interrupted).count()


def _resumed(interrupted: Mapping[UUID, int]) -> int:
    ended = Job.objects.filter(pk__in=interrupted, state__in=TERMINAL).values_list("pk", "claim")
    return sum(claim > interrupted[pk] for pk, claim in ended)


def _references(deeds: Iterable[Deed]) -> list[str]:
    return [deed.reference for deed in deeds]


def _standing(deeds: Iterable[Deed]) -> list[Deed]:
    return [deed for deed in deeds if not deed.undone]
