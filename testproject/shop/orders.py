"""How an order comes in, and how its delivery is reported: the row and what follows, or neither."""

from __future__ import annotations

from decimal import Decimal

from django.db import transaction

from testproject.shop.jobs import Checkout, Delivered, checkout
from testproject.shop.models import Order, OrderState
from ultimate_jobs import Enqueued, publish_event


class OrderRefused(Exception):
    """The shop changed its mind after everything was written."""


def place(
    reference: str, amount: Decimal, *, fail: bool = False, **details: str
) -> tuple[Order, Enqueued]:
    """Create the order and enqueue its checkout in one transaction.

    `details` are a `sku`, a `card` and an `address` other than the usual ones.

    Raises:
        OrderRefused: `fail` was set. It is raised last, so that all there is to roll back is written.

    """
    with transaction.atomic():
        order = Order.objects.create(reference=reference, amount=amount, **details)
        queued = checkout.enqueue(Checkout(order.pk, reference, amount), related=order)
        if fail:
            raise OrderRefused(f"Order {reference} was refused.")
    return order, queued


def deliver(delivered: Delivered) -> bool:
    """Mark an order delivered and tell its checkout, in one transaction; answer whether it was news.

    Raises:
        Order.DoesNotExist: there is no such order.

    """
    with transaction.atomic():
        order = Order.objects.select_for_update().get(reference=delivered.reference)
        if order.state != OrderState.PAID:
            return False
        order.state = OrderState.DELIVERED
        order.save(update_fields=["state"])
        publish_event("order.delivered", delivered, correlation_key=delivered.reference)
    return True
