"""What a checkout does in the shop's own tables.

What `run.atomic` calls happens exactly once: its writes and the record of the step are one commit.
`cancel` is a compensation, which may be called again, so it looks first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F

from testproject.shop.ledger import book
from testproject.shop.models import Order, OrderState, Reservation, Stock
from ultimate_jobs import Run

if TYPE_CHECKING:
    from testproject.shop.jobs import Checkout


class OrderMissing(Exception):
    """The order of a checkout does not exist: it was enqueued outside the order's transaction."""

    code = "ORDER_MISSING"


class OutOfStock(Exception):
    """There is nothing left of what was ordered."""

    code = "OUT_OF_STOCK"


@dataclass(frozen=True, slots=True)
class Details:
    """What an order was when its checkout began."""

    card: str
    address: str


def accept(order_id: int) -> Details:
    order = Order.objects.filter(pk=order_id).first()
    if order is None:
        raise OrderMissing(f"There is no order {order_id}.")
    return Details(order.card, order.address)


def reserve(run: Run[Checkout]) -> None:
    """Take the goods from the shelf, write the sale into the ledger, mark the order paid."""
    order = _locked(run.input.order_id)
    shelf, _ = Stock.objects.get_or_create(sku=order.sku)
    if not Stock.objects.filter(pk=shelf.pk, left__gt=0).update(left=F("left") - 1):
        raise OutOfStock(f"There is no {order.sku} left.")
    Reservation.objects.create(order=order, shelf=shelf)
    book("sale", order.reference, order.amount, job_id=run.job_id, attempt=run.attempt)
    _move(order, OrderState.PAID)


def nudge(order_id: int) -> bool:
    """Remind the customer of the parcel, unless it has arrived; answer whether it has.

    The order is locked, so its delivery is either seen here or reported after this step, where a
    wait for it finds the event.
    """
    order = _locked(order_id)
    if order.state == OrderState.DELIVERED:
        return True
    order.nudges += 1
    order.save(update_fields=["nudges"])
    return False


def cancel(run: Run[Checkout]) -> None:
    """Put the goods back, take the sale back, mark the order cancelled."""
    with transaction.atomic():
        order = _locked(run.input.order_id)
        if order.state == OrderState.CANCELLED:
            return
        for reservation in Reservation.objects.filter(order=order):
            Stock.objects.filter(pk=reservation.shelf_id).update(left=F("left") + 1)
            reservation.delete()
            book("return", order.reference, -order.amount, job_id=run.job_id, attempt=run.attempt)
        _move(order, OrderState.CANCELLED)


def _locked(order_id: int) -> Order:
    return Order.objects.select_for_update().get(pk=order_id)


def _move(order: Order, state: OrderState) -> None:
    order.state = state
    order.save(update_fields=["state"])
