"""The digest of a day, and the night in which it is written."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import transaction

from testproject.shop.digests import day_before, summarise
from testproject.shop.jobs import Day, every_night, nightly_digest
from testproject.shop.models import Digest, Order
from tests.builders import work_off
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.models import Job as JobRow

SUNDAY = date(2026, 10, 25)
"""The day on which clocks go back in Berlin: it has 25 hours."""


def ordered(reference: str, at: str, amount: str = "1.50") -> None:
    order = Order.objects.create(reference=reference, amount=Decimal(amount))
    Order.objects.filter(pk=order.pk).update(created_at=datetime.fromisoformat(at))


def written() -> list[tuple[date, int, Decimal]]:
    return list(Digest.objects.values_list("day", "orders", "amount"))


@pytest.mark.django_db
def test_a_digest_holds_the_orders_of_its_day() -> None:
    ordered("before", "2026-10-24T21:59:59.999999Z")
    ordered("first", "2026-10-24T22:00Z", "2.00")
    ordered("last", "2026-10-25T22:59:59.999999Z")
    ordered("after", "2026-10-25T23:00Z")

    summarise(SUNDAY)

    assert written() == [(SUNDAY, 2, Decimal("3.50"))]


@pytest.mark.django_db
def test_a_day_without_orders_has_a_digest_too() -> None:
    summarise(SUNDAY)

    assert written() == [(SUNDAY, 0, Decimal("0.00"))]


@pytest.mark.django_db
def test_a_digest_that_is_written_again_is_brought_up_to_date() -> None:
    summarise(SUNDAY)
    ordered("late", "2026-10-25T12:00Z")
    summarise(SUNDAY)

    assert written() == [(SUNDAY, 1, Decimal("1.50"))]


@pytest.mark.parametrize(
    ("instant", "day"),
    [
        ("2026-10-25T00:30:00Z", date(2026, 10, 24)),
        ("2026-10-25T22:59:59Z", date(2026, 10, 24)),
        ("2026-10-25T23:00:00Z", date(2026, 10, 25)),
    ],
)
def test_the_day_before_is_the_shops(instant: str, day: date) -> None:
    assert day_before(datetime.fromisoformat(instant)) == day


def test_every_night_has_one_digest_of_the_day_before() -> None:
    assert tasks.get("shop.every_night") is every_night
    night = datetime(2026, 10, 23, 12, tzinfo=UTC)
    days = []
    for _ in range(4):
        night = every_night.next_run(night)
        ((job, value),) = every_night.entries(night)
        assert job is nightly_digest
        days.append(value.day)

    assert days == [date(2026, 10, 23) + timedelta(days=n) for n in range(4)]


@pytest.mark.django_db(transaction=True)
def test_a_digest_can_be_asked_for() -> None:
    ordered("a-1", "2026-10-25T12:00Z")

    with transaction.atomic():
        (queued,) = every_night.enqueue(datetime(2026, 10, 26, 1, 30, tzinfo=UTC))
    work_off()

    row = JobRow.objects.get(pk=queued.id)
    assert (row.state, row.result) == ("done", 1)
    assert (
        row.idempotency_key == f"digest:{SUNDAY}" == nightly_digest.idempotency_key_for(Day(SUNDAY))
    )
    assert written() == [(SUNDAY, 1, Decimal("1.50"))]
