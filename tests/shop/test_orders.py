"""Orders over HTTP: the row and its checkout, or neither."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from testproject.shop.models import Order
from ultimate_jobs.models import Job, OutboxEntry

pytestmark = pytest.mark.django_db(transaction=True)


def post(client: Client, body: object) -> tuple[int, dict[str, Any]]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post("/orders/", raw, content_type="application/json")
    return answer.status_code, answer.json()


def test_an_order_is_stored_with_its_checkout(client: Client) -> None:
    status, body = post(client, {"reference": "a-1", "amount": "12.5"})

    order = Order.objects.get()
    entry = OutboxEntry.objects.get()
    assert status == 201
    assert body == {
        "reference": "a-1",
        "amount": "12.50",
        "state": "placed",
        "job": str(entry.pk),
    }
    assert (order.reference, order.amount) == ("a-1", Decimal("12.50"))
    assert entry.name == "shop.checkout"
    assert entry.input == {"order_id": order.pk, "reference": "a-1", "amount": "12.5"}


def test_an_order_may_say_what_and_where_to(client: Client) -> None:
    asked = {"sku": "teapot", "card": "silent", "address": "2 High Street, 1st floor"}
    status, _ = post(client, {"reference": "a-1", "amount": "12.5", **asked})

    order = Order.objects.get()
    assert status == 201
    assert {"sku": order.sku, "card": order.card, "address": order.address} == asked


def test_a_refused_order_leaves_nothing(client: Client) -> None:
    status, body = post(client, {"reference": "a-1", "amount": "12.50", "fail": True})

    assert (status, body) == (422, {"error": "Order a-1 was refused."})
    assert not Order.objects.exists()
    assert not OutboxEntry.objects.exists()
    assert not Job.objects.exists()


def test_a_reference_is_taken_once(client: Client) -> None:
    post(client, {"reference": "a-1", "amount": "1"})
    status, body = post(client, {"reference": "a-1", "amount": "2"})

    assert (status, body) == (409, {"error": "There is an order a-1 already."})
    assert Order.objects.get().amount == 1
    assert OutboxEntry.objects.count() == 1


def test_a_refused_reference_can_be_used_again(client: Client) -> None:
    post(client, {"reference": "a-1", "amount": "1", "fail": True})
    status, _ = post(client, {"reference": "a-1", "amount": "1"})

    assert status == 201
    assert OutboxEntry.objects.count() == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        [],
        {"reference": "a-1"},
        {"reference": "", "amount": "1"},
        {"reference": "a\u0000", "amount": "1"},
        {"reference": "a/b", "amount": "1"},
        {"reference": "a" * 65, "amount": "1"},
        {"reference": "a-1", "amount": "0"},
        {"reference": "a-1", "amount": "-1"},
        {"reference": "a-1", "amount": "1.005"},
        {"reference": "a-1", "amount": "NaN"},
        {"reference": "a-1", "amount": "1e30"},
        {"reference": "a-1", "amount": "1", "fail": "yes"},
        {"reference": "a-1", "amount": "1", "free": True},
        {"reference": "a-1", "amount": "1", "sku": ""},
        {"reference": "a-1", "amount": "1", "card": "a" * 33},
        {"reference": "a-1", "amount": "1", "address": "a\u0000"},
    ],
)
def test_a_bad_request_is_refused_before_a_write(client: Client, body: object) -> None:
    status, answer = post(client, body)

    assert status == 400
    assert answer["error"]
    assert not Order.objects.exists()


def test_an_order_is_shown_with_its_job(client: Client) -> None:
    _, placed = post(client, {"reference": "a-1", "amount": "12.50"})

    answer = client.get("/orders/a-1/")

    assert answer.status_code == 200
    assert answer.json() == {
        "reference": "a-1",
        "amount": "12.50",
        "state": "placed",
        "jobs": [{"id": placed["job"], "state": "staged", "attempt": 0}],
    }


def test_an_unknown_order_is_not_found(client: Client) -> None:
    assert client.get("/orders/a-1/").status_code == 404


def test_orders_are_only_posted(client: Client) -> None:
    assert client.get("/orders/").status_code == 405
