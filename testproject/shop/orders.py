"""Placing an order: the row and its checkout, or neither."""

from __future__ import annotations

from decimal import Decimal

from django.db import transaction

from testproject.shop.jobs import Checkout, checkout
from testproject.shop.models import Order
from ultimate_jobs import Enqueued


class OrderRefused(Exception):
    """The shop changed its mind after everything was written."""


def place(reference: str, amount: Decimal, *, fail: bool = False) -> tuple[Order, Enqueued]:
    """Create the order and enqueue its checkout in one transaction.

    Raises:
        OrderRefused: `fail` was set. It is raised last, so that all there is to roll back is written.

    """
    with transaction.atomic():
        order = Order.objects.create(reference=reference, amount=amount)
        queued = checkout.enqueue(Checkout(order.pk, reference, amount), related=order)
        if fail:
            raise OrderRefused(f"Order {reference} was refused.")
    return order, queued
