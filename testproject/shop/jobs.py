"""The shop's jobs: a checkout, from the order to the customer's door, and a digest every night."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from django.conf import settings

from testproject.shop import digests, fulfilment, partners
from testproject.shop.fulfilment import Details
from ultimate_jobs import NO_TENANT, Job, Retry, Run, job, register_error_retry, task

register_error_retry(
    {
        "ORDER_MISSING": "terminal",
        "CARD_DECLINED": "terminal",
        "OUT_OF_STOCK": "terminal",
        "ADDRESS_REFUSED": "terminal",
    }
)
BUSY = Retry(attempts=5, delay="200ms", max_delay="1m")


@dataclass(frozen=True, slots=True)
class Checkout:
    order_id: int
    reference: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the carrier says of a parcel that has arrived."""

    reference: str
    signed_by: str


@dataclass(frozen=True, slots=True)
class Receipt:
    reference: str
    charge: str
    parcel: str
    delivered: bool


@job(
    input=Checkout,
    tenant=NO_TENANT,
    idempotency_key=lambda i: f"checkout:{i.reference}",
    retry=Retry(attempts=3, delay="200ms"),
    compensates=True,
)
def checkout(run: Run[Checkout]) -> Receipt:
    """Take an order to its customer. What fails for good is undone, the last step first."""
    order = run.input
    charge_key, parcel_key = f"{run.job_id}:charge", f"{run.job_id}:ship"

    def cancel(_: object) -> None:
        # By key and not by answer: an attempt may have died before it heard what a partner did.
        partners.recall(order.reference, key=parcel_key)
        partners.refund(order.reference, key=charge_key)
        fulfilment.cancel(run)

    details = run.step(
        "accept", lambda: fulfilment.accept(order.order_id), returns=Details, compensate=cancel
    )
    charge = run.step(
        "charge",
        lambda: partners.charge(order.reference, order.amount, details.card, key=charge_key),
        returns=str,
        compensate=lambda _: partners.refund(order.reference, key=charge_key),
        retry=BUSY,
    )
    run.atomic("reserve", lambda: fulfilment.reserve(run))
    parcel = run.step(
        "ship",
        lambda: partners.ship(order.reference, details.address, key=parcel_key),
        returns=str,
        retry=BUSY,
    )
    run.sleep("patience", settings.SHOP_NUDGE_AFTER)
    delivered = run.atomic("nudge", lambda: fulfilment.nudge(order.order_id), returns=bool)
    if not delivered:
        event = run.wait_for_event(
            "delivery", "order.delivered", schema=Delivered, match=order.reference, timeout="14d"
        )
        delivered = event is not None
    return Receipt(order.reference, charge, parcel, delivered)


@dataclass(frozen=True, slots=True)
class Day:
    day: date


@job(
    input=Day,
    tenant=NO_TENANT,
    idempotency_key=lambda i: f"digest:{i.day}",
    retry=Retry(attempts=5, delay="1m"),
)
def nightly_digest(run: Run[Day]) -> int:
    """Sum up what was ordered on a day; answer how many orders there were."""
    return digests.summarise(run.input.day).orders


@task(cron="30 2 * * *", tz=digests.ZONE, catch_up="run-all", max_catch_up=31)
def every_night(occurrence: datetime) -> list[tuple[Job[Day, int], Day]]:
    """Have the day before summed up; a scheduler that was away sums up every day it missed."""
    return [(nightly_digest, Day(digests.day_before(occurrence)))]
