"""The shop's HTTP interface, in JSON."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import msgspec
from django.contrib.contenttypes.models import ContentType
from django.db import IntegrityError
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from testproject.shop import orders
from testproject.shop.jobs import Delivered
from testproject.shop.models import Order
from ultimate_jobs.models import Job, OutboxEntry

Reference = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]
Word = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,32}\Z")]
CENT = Decimal("0.01")
LARGEST = Decimal("9999999999.99")


class NewOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request; `fail` asks for a refusal after the enqueue."""

    reference: Reference
    amount: Decimal
    sku: Word = "mug"
    card: Word = "card"
    address: Annotated[str, msgspec.Meta(pattern=r"^[^\x00]{1,200}\Z")] = "1 Main Street"
    fail: bool = False

    def __post_init__(self) -> None:
        amount = self.amount
        if not amount.is_finite() or not CENT <= amount <= LARGEST or amount % CENT:
            raise ValueError(f"amount must be {CENT} to {LARGEST}, in whole cents")


@csrf_exempt
@require_POST
def create_order(request: HttpRequest) -> JsonResponse:
    try:
        new = msgspec.json.decode(request.body, type=NewOrder)
    except msgspec.DecodeError as error:
        return _refusal(400, error)
    try:
        order, queued = orders.place(**msgspec.structs.asdict(new))
    except orders.OrderRefused as error:
        return _refusal(422, error)
    except IntegrityError:
        if not Order.objects.filter(reference=new.reference).exists():
            raise
        return _refusal(409, f"There is an order {new.reference} already.")
    return JsonResponse(_shown(order) | {"job": str(queued.id)}, status=201)


@csrf_exempt
@require_POST
def carrier(request: HttpRequest) -> JsonResponse:
    """Hear from the carrier that a parcel has arrived; hearing it again changes nothing."""
    try:
        delivered = msgspec.json.decode(request.body, type=Delivered)
        is_news = orders.deliver(delivered)
    except msgspec.DecodeError as error:
        return _refusal(400, error)
    except Order.DoesNotExist:
        return _refusal(404, "There is no such order.")
    return JsonResponse({"news": is_news})


@require_GET
def show_order(request: HttpRequest, reference: str) -> JsonResponse:
    order = get_object_or_404(Order, reference=reference)
    return JsonResponse(_shown(order) | {"jobs": _jobs_of(order)})


def _shown(order: Order) -> dict[str, Any]:
    return {"reference": order.reference, "amount": f"{order.amount:.2f}", "state": order.state}


def _jobs_of(order: Order) -> list[dict[str, Any]]:
    related = {"related_type": ContentType.objects.get_for_model(Order), "related_id": order.pk}
    staged = OutboxEntry.objects.filter(**related, published_at=None)
    jobs = Job.objects.filter(**related)
    return [{"id": entry.id, "state": "staged", "attempt": 0} for entry in staged] + [
        {"id": job.id, "state": job.state, "attempt": job.attempt} for job in jobs
    ]


def _refusal(status: int, why: object) -> JsonResponse:
    return JsonResponse({"error": str(why)}, status=status)
