"""The shop's jobs."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings

from testproject.shop.ledger import book
from testproject.shop.models import Order, OrderState
from ultimate_jobs import NO_TENANT, Retry, Run, job


@dataclass(frozen=True, slots=True)
class Checkout:
    order_id: int
    reference: str
    amount: Decimal


class OrderMissing(Exception):
    """The order of a checkout does not exist: it was enqueued outside the order's transaction."""


@job(
    input=Checkout,
    tenant=NO_TENANT,
    idempotency_key=lambda i: f"checkout:{i.reference}",
    retry=Retry(attempts=3),
)
def checkout(run: Run[Checkout]) -> dict[str, object]:
    """Charge the customer and mark the order paid."""
    order = run.input
    run.signal.wait(settings.SHOP_CHARGE_SECONDS)
    run.signal.raise_if_aborted()
    charged = book("charge", order.reference, order.amount, job_id=run.job_id, attempt=run.attempt)
    if not Order.objects.filter(pk=order.order_id).update(state=OrderState.PAID):
        raise OrderMissing
    return {"reference": order.reference, "charged": charged, "attempt": run.attempt}
