"""The checkout: delivered and paid once, or cancelled with everything given back."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from testproject.demo.audit import Audit, Books as AuditedBooks, Deed, Told, audit
from testproject.partners.books import Books
from testproject.shop import fulfilment, orders, partners as shops_partners
from testproject.shop.jobs import Delivered
from testproject.shop.models import LedgerEntry, Order, Reservation, Stock
from tests.builders import sql
from tests.steps.runs import finish, lapse, make_due, row, step_of, trace, work
from ultimate_jobs import Enqueued
from ultimate_jobs.operate.verbs import retry_job

pytestmark = pytest.mark.django_db(transaction=True)

TAKES_EFFECT = ("done", "undone")
FORWARD = ["accept", "charge", "reserve", "ship", "patience", "nudge", "delivery"]


def place(reference: str = "a-1", **details: Any) -> Enqueued:
    _, queued = orders.place(reference, Decimal("12.50"), **details)
    return queued


def arrive(reference: str = "a-1") -> bool:
    return orders.deliver(Delivered(reference, "A. Neighbour"))


def work_until_the_sleep(queued: Enqueued) -> None:
    """Work, and end the waits of steps that are tried again, until the checkout sleeps."""
    for _ in range(5):
        work()
        if row(queued).state == "suspended" and trace(queued)[-1] == ("patience", "sleeping"):
            return
        sql("UPDATE x_jobs SET run_at = now()")
    raise AssertionError(f"it never slept: {trace(queued)}, {row(queued).last_error}")


def order_of(reference: str = "a-1") -> Order:
    return Order.objects.get(reference=reference)


def ledger() -> dict[str, Decimal]:
    return dict(LedgerEntry.objects.order_by("key").values_list("key", "amount"))


def what_stands(books: Books) -> tuple[int, int]:
    """Count the charges and parcels that were not undone."""
    charges, parcels = books.deeds("charge"), books.deeds("shipment")
    return sum(not one["undone"] for one in charges), sum(not one["undone"] for one in parcels)


def effects(books: Books) -> list[tuple[object, object]]:
    """Read what the partners did, in order; calls without an effect are left out."""
    return [(call["what"], call["did"]) for call in books.calls() if call["did"] in TAKES_EFFECT]


def found(books: Books) -> Audit:
    deeds = [[deed(line) for line in books.deeds(what)] for what in ("charge", "shipment")]
    told = Told(set(Order.objects.values_list("reference", flat=True)), set(), {})
    return audit(told, AuditedBooks(*deeds))


def deed(line: dict[str, object]) -> Deed:
    return Deed(str(line["reference"]), str(line["key"]), undone=bool(line["undone"]))


class TestSuccess:
    def test_it_ends_when_the_carrier_has_delivered(self, partners: Books) -> None:
        queued = place()
        work()
        assert trace(queued)[-1] == ("patience", "sleeping")
        assert order_of().state == "paid"
        make_due()
        work()
        assert trace(queued)[-1] == ("delivery", "waiting")

        assert arrive()
        work()

        ended = row(queued)
        assert (ended.state, ended.attempt) == ("done", 1)
        assert ended.result == {
            "reference": "a-1",
            "charge": step_of(queued, "charge").output,
            "parcel": step_of(queued, "ship").output,
            "delivered": True,
        }
        assert [name for name, _ in trace(queued)] == FORWARD
        assert (order_of().state, order_of().nudges) == ("delivered", 1)

    def test_everybody_has_the_same_in_their_books(self, partners: Books) -> None:
        queued = place()
        work()
        make_due()
        work()
        arrive()
        work()

        assert effects(partners) == [("charge", "done"), ("shipment", "done")]
        assert [charge["key"] for charge in partners.deeds("charge")] == [f"{queued.id}:charge"]
        assert ledger() == {"sale:a-1": Decimal("12.50")}
        assert Stock.objects.get().left == Stock.objects.get().received - 1
        assert Reservation.objects.get().order == order_of()
        assert found(partners).is_clean
        assert found(partners).completed == 1

    def test_the_customer_waits_three_days_for_the_reminder(self, partners: Books) -> None:
        queued = place()
        work()

        ((days,),) = sql(
            "SELECT extract(epoch FROM wake_at - started_at) / 86400 FROM x_job_steps"
            " WHERE status = 'sleeping' AND run_id = %s",
            [queued.run_id],
        )
        assert days == 3

    def test_a_parcel_that_arrives_during_the_sleep_needs_no_reminder(
        self, partners: Books
    ) -> None:
        queued = place()
        work()
        assert arrive()
        make_due()
        work()

        assert row(queued).state == "done"
        assert order_of().nudges == 0
        assert ("delivery", "completed") not in trace(queued)

    def test_a_carrier_that_stays_silent_is_not_waited_for_for_ever(self, partners: Books) -> None:
        queued = place()
        work()
        make_due()
        work()
        sql("UPDATE x_job_steps SET wake_at = now() WHERE status = 'waiting'")
        make_due()
        work()

        result = row(queued).result
        assert (row(queued).state, order_of().state) == ("done", "paid")
        assert isinstance(result, dict)
        assert result["delivered"] is False

    @pytest.mark.parametrize(
        "details",
        [{"card": "busy"}, {"card": "silent"}, {"address": "island"}, {"address": "moor"}],
        ids=lambda details: next(iter(details.values())),
    )
    def test_a_partner_that_fails_at_first_is_asked_again_under_the_same_key(
        self, partners: Books, details: dict[str, str]
    ) -> None:
        queued = place(**details)

        work_until_the_sleep(queued)

        assert what_stands(partners) == (1, 1)
        assert effects(partners) == [("charge", "done"), ("shipment", "done")]
        assert len(partners.calls()) == 3
        make_due()
        work()
        arrive()
        work()
        assert (row(queued).state, row(queued).attempt) == ("done", 1)
        assert found(partners).is_clean


class TestFailure:
    def test_a_declined_card_cancels_the_order(self, partners: Books) -> None:
        queued = place(card="declined")
        work()

        ended = row(queued)
        assert (ended.state, ended.attempt) == ("dead", 1)
        assert "The charge is refused" in str(ended.last_error)
        assert "(not retried: CARD_DECLINED is terminal)" in str(ended.last_error)
        assert order_of().state == "cancelled"
        assert effects(partners) == []
        assert ledger() == {}
        assert not Stock.objects.exists()
        assert found(partners).is_clean
        assert found(partners).compensated == 1

    def test_a_refused_address_gives_everything_back_once(self, partners: Books) -> None:
        queued = place(address="nowhere")
        work()

        assert row(queued).state == "dead"
        assert "ADDRESS_REFUSED" in str(row(queued).last_error)
        assert order_of().state == "cancelled"
        assert effects(partners) == [("charge", "done"), ("undo charge", "undone")]
        assert ledger() == {"return:a-1": Decimal("-12.50"), "sale:a-1": Decimal("12.50")}
        assert Stock.objects.get().left == Stock.objects.get().received
        assert not Reservation.objects.exists()
        assert [name for name, _ in trace(queued)] == [
            "accept",
            "charge",
            "reserve",
            "ship",
            "unwinding",
            "compensate:charge",
            "compensate:accept",
        ]
        assert found(partners).is_clean
        assert found(partners).compensated == 1

    def test_an_empty_shelf_gives_the_money_back(self, partners: Books) -> None:
        Stock.objects.create(sku="mug", left=0)
        queued = place()
        work()

        assert row(queued).state == "dead"
        assert order_of().state == "cancelled"
        assert effects(partners) == [("charge", "done"), ("undo charge", "undone")]
        assert ledger() == {}
        assert Stock.objects.get().left == 0

    def test_a_charge_whose_answer_never_came_is_given_back_too(
        self, partners: Books, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ask = shops_partners.charge

        def charge_and_die(*args: object, **options: object) -> str:
            ask(*args, **options)  # type: ignore[arg-type]
            raise shops_partners.PartnerRefused("CARD_DECLINED", "as if nobody had heard it")

        monkeypatch.setattr(shops_partners, "charge", charge_and_die)
        queued = place()
        work()

        assert row(queued).state == "dead"
        assert effects(partners) == [("charge", "done"), ("undo charge", "undone")]
        assert found(partners).is_clean

    def test_a_charge_that_comes_after_the_refund_is_refused(self, partners: Books) -> None:
        queued = place(address="nowhere")
        work()

        with pytest.raises(shops_partners.PartnerRefused) as late:
            shops_partners.charge("a-1", Decimal("12.50"), "card", key=f"{queued.id}:charge")

        assert late.value.code == "UNDONE"
        assert what_stands(partners) == (0, 0)

    def test_what_was_undone_stays_undone_when_an_operator_retries(self, partners: Books) -> None:
        queued = place(address="nowhere")
        work()
        retry_job(str(queued.id))
        finish(queued)

        assert row(queued).state == "dead"
        assert order_of().state == "cancelled"
        assert effects(partners) == [("charge", "done"), ("undo charge", "undone")]
        assert found(partners).uncompensated == 0

    def test_a_partner_that_is_away_is_asked_until_the_attempts_are_spent(self) -> None:
        queued = place()
        finish(queued, rounds=40)

        assert row(queued).state == "dead"
        assert "X_JOB_COMPENSATION_FAILED" in str(row(queued).last_error)
        assert order_of().state == "placed"

    def test_a_checkout_without_its_order_ends_at_once(self, partners: Books) -> None:
        queued = place()
        Order.objects.all().delete()
        work()

        assert (row(queued).state, row(queued).attempt) == ("dead", 1)
        assert partners.calls() == []


class TestDeath:
    def test_an_attempt_that_dies_after_the_charge_does_not_charge_again(
        self, partners: Books
    ) -> None:
        queued = place()
        work()
        sql("DELETE FROM x_job_steps WHERE name IN ('ship', 'patience')")
        sql(
            "UPDATE x_jobs SET state = 'running', claimed_by = 'dead', visible_at = now(),"
            " attempt = 1"
        )
        lapse()
        work()

        assert row(queued).attempt == 1
        assert effects(partners) == [("charge", "done"), ("shipment", "done")]
        assert ledger() == {"sale:a-1": Decimal("12.50")}
        assert Stock.objects.get().left == Stock.objects.get().received - 1

    def test_a_cancellation_may_be_called_again(self, partners: Books) -> None:
        queued = place(address="nowhere")
        work()
        before = ledger(), Stock.objects.get().left
        sql("DELETE FROM x_job_steps WHERE name LIKE 'compensate:%%'")
        retry_job(str(queued.id))
        finish(queued)

        assert (ledger(), Stock.objects.get().left) == before
        assert found(partners).uncompensated == found(partners).duplicates == 0


class TestTheCarrier:
    @pytest.fixture
    def shipped(self, partners: Books) -> Enqueued:
        queued = place()
        work()
        return queued

    def post(self, client: Client, body: object) -> tuple[int, dict[str, object]]:
        answer = client.post("/carrier/", body, content_type="application/json")
        return answer.status_code, answer.json()

    def test_an_arrival_is_news_once(self, client: Client, shipped: Enqueued) -> None:
        told = {"reference": "a-1", "signed_by": "A. Neighbour"}

        assert self.post(client, told) == (200, {"news": True})
        assert self.post(client, told) == (200, {"news": False})
        assert order_of().state == "delivered"
        ((events,),) = sql("SELECT count(*) FROM x_job_events WHERE correlation_key = 'a-1'")
        assert events == 1

    def test_an_arrival_wakes_the_checkout(self, client: Client, shipped: Enqueued) -> None:
        make_due()
        work()
        self.post(client, {"reference": "a-1", "signed_by": "A. Neighbour"})
        work()

        assert row(shipped).state == "done"
        assert step_of(shipped, "delivery").output == {
            "payload": {"reference": "a-1", "signed_by": "A. Neighbour"}
        }

    def test_the_arrival_of_another_order_does_not(self, client: Client, shipped: Enqueued) -> None:
        other = place("a-2")
        work()
        make_due()
        work()
        self.post(client, {"reference": "a-2", "signed_by": "A. Neighbour"})
        work()

        assert (row(shipped).state, row(other).state) == ("suspended", "done")

    def test_what_never_was_ordered_is_not_found(self, client: Client) -> None:
        status, _ = self.post(client, {"reference": "a-1", "signed_by": "A. Neighbour"})

        assert status == 404

    @pytest.mark.parametrize("body", [{}, [], {"reference": "a-1"}, {"reference": 1}])
    def test_what_makes_no_sense_is_refused(self, client: Client, body: object) -> None:
        assert self.post(client, body)[0] == 400

    def test_an_order_that_was_cancelled_is_not_delivered(self, partners: Books) -> None:
        place(address="nowhere")
        work()

        assert not arrive()
        assert order_of().state == "cancelled"


def test_a_reminder_and_an_arrival_take_turns(partners: Books) -> None:
    place()
    work()

    assert not nudge()
    arrive()
    assert nudge()
    assert order_of().nudges == 1


def nudge() -> bool:
    with transaction.atomic():
        return fulfilment.nudge(order_of().pk)
