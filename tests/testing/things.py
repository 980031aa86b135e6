"""What the tests of the kit have in common."""

from __future__ import annotations

from decimal import Decimal

from testproject.shop.models import Order

ONE = Decimal(1)


class Declined(Exception):
    """A card that is refused."""


def order(reference: str = "a-1") -> Order:
    return Order.objects.create(reference=reference, amount=ONE)


def references() -> list[str]:
    return list(Order.objects.order_by("reference").values_list("reference", flat=True))
