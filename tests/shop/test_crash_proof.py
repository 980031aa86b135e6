"""A checkout does the same wherever its worker dies, also when it has to be undone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from testproject.shop import partners
from testproject.shop.jobs import Checkout, Delivered, checkout
from testproject.shop.models import LedgerEntry, Order, Reservation, Stock
from ultimate_jobs import publish_event
from ultimate_jobs.testing import crash_proof

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

ORDER = 7


class Partners(dict[str, str]):
    """What partners were asked, once for each key, however often that was."""

    refuses: str | None = None

    def ask(self, path: str, body: dict[str, str], key: str) -> dict[str, Any]:
        if path == self.refuses:
            raise partners.PartnerRefused("ADDRESS_REFUSED", "There is no such place.")
        self[f"{path} {key}"] = body["reference"]
        return {"id": key}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Partners:
    asked = Partners()
    monkeypatch.setattr(partners, "_ask", asked.ask)
    return asked


def place() -> None:
    Order.objects.create(id=ORDER, reference="ada", amount=Decimal(20))
    Stock.objects.create(sku="mug", left=5)


def books() -> dict[str, Any]:
    return {
        "order": Order.objects.values_list("state", "nudges").get(id=ORDER),
        "left": Stock.objects.get().left,
        "reserved": Reservation.objects.count(),
        "booked": dict(LedgerEntry.objects.order_by("key").values_list("key", "repeats")),
    }


def test_a_delivery(world: Partners) -> None:
    report = crash_proof(
        checkout,
        Checkout(ORDER, "ada", Decimal(20)),
        setup=place,
        ledger=books,
        effects=world,
        meanwhile=lambda: publish_event(
            "order.delivered", Delivered("ada", "Ada"), correlation_key="ada"
        ),
    )

    assert report.ledger["state"] == "done"
    assert report.ledger["ledger"] == {
        "order": ["paid", 1],
        "left": 4,
        "reserved": 1,
        "booked": {"sale:ada": 0},
    }


def test_a_parcel_that_the_carrier_refuses(world: Partners) -> None:
    world.refuses = "/shipments"

    report = crash_proof(
        checkout,
        Checkout(ORDER, "ada", Decimal(20)),
        setup=place,
        ledger=books,
        effects=world,
    )

    assert report.ledger["state"] == "dead"
    assert report.ledger["ledger"] == {
        "order": ["cancelled", 0],
        "left": 5,
        "reserved": 0,
        "booked": {"return:ada": 0, "sale:ada": 0},
    }
