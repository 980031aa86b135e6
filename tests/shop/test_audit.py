"""The demo's audit sees each kind of damage."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid5

import pytest
from django.db.models import F

from testproject.demo.audit import Audit, Books, Deed, Told, audit
from testproject.shop.models import LedgerEntry, Order, OrderState, Reservation, Stock
from ultimate_jobs.models import Job

pytestmark = pytest.mark.django_db


class World:
    """What partners did, and what the customers were told."""

    def __init__(self) -> None:
        self.accepted: set[str] = set()
        self.refused = {"bad"}
        self.interrupted: Mapping[UUID, int] = {}
        self.charges: list[Deed] = []
        self.parcels: list[Deed] = []

    def delivered(self, reference: str) -> None:
        """Let an order go well, in everybody's books."""
        order(reference)
        job(reference)
        entry("sale", reference, 1)
        reserve(reference)
        self.charges.append(Deed(reference, f"{reference}:charge"))
        self.parcels.append(Deed(reference, f"{reference}:ship"))
        self.accepted.add(reference)

    def cancelled(self, reference: str, *, charged: bool = True) -> None:
        """Let an order fail and be undone."""
        order(reference, OrderState.CANCELLED)
        job(reference, state="dead")
        if charged:
            entry("sale", reference, 1)
            entry("return", reference, -1)
            self.charges.append(Deed(reference, f"{reference}:charge", undone=True))
        self.accepted.add(reference)

    def audit(self) -> Audit:
        told = Told(self.accepted, self.refused, self.interrupted)
        return audit(told, Books(self.charges, self.parcels))


def order(reference: str, state: OrderState = OrderState.DELIVERED) -> None:
    Order.objects.create(reference=reference, amount=1, state=state, nudges=1)


def entry(effect: str, reference: str, amount: int, *, repeats: int = 0) -> None:
    LedgerEntry.objects.create(
        key=f"{effect}:{reference}",
        reference=reference,
        amount=amount,
        job_id=UUID(int=1),
        attempt=1,
        repeats=repeats,
    )


def reserve(reference: str) -> None:
    shelf, _ = Stock.objects.get_or_create(sku="mug")
    Stock.objects.update(left=F("left") - 1)
    Reservation.objects.create(order=Order.objects.get(reference=reference), shelf=shelf)


def job(reference: str, *, state: str = "done", attempt: int = 1, twin: str = "") -> UUID:
    made = Job.objects.create(
        id=uuid5(UUID(int=0), reference + twin),
        run_id=uuid5(UUID(int=0), reference + twin),
        name="shop.checkout",
        idempotency_key=f"checkout:{reference}",
        input={"reference": reference},
        state=state,
        attempt=attempt,
        claim=attempt,
    )
    return made.pk


@pytest.fixture
def world() -> World:
    found = World()
    found.delivered("good")
    found.cancelled("failed")
    return found


def test_what_went_well_shows_nothing(world: World) -> None:
    found = world.audit()

    assert found == Audit(
        committed=2,
        rolled_back=1,
        completed=1,
        ghosts=0,
        lost=0,
        duplicates=0,
        compensated=1,
        charged_twice=0,
        uncompensated=0,
        interrupted_and_resumed=0,
    )
    assert found.is_clean


def test_an_order_that_was_declined_is_undone_as_well(world: World) -> None:
    world.cancelled("declined", charged=False)

    assert world.audit().compensated == 2
    assert world.audit().is_clean


class TestGhosts:
    def test_a_booking_without_an_order(self, world: World) -> None:
        entry("sale", "bad", 1)
        assert world.audit().ghosts == 1

    def test_a_job_without_an_order(self, world: World) -> None:
        job("bad")
        assert world.audit().ghosts == 1

    def test_a_charge_without_an_order(self, world: World) -> None:
        world.charges.append(Deed("bad", "bad:charge", undone=True))
        assert world.audit().ghosts == 1

    def test_a_parcel_without_an_order(self, world: World) -> None:
        world.parcels.append(Deed("bad", "bad:ship"))
        assert world.audit().ghosts == world.audit().uncompensated == 1

    def test_a_refused_order_that_is_there(self, world: World) -> None:
        world.delivered("bad")
        assert world.audit().ghosts == 1


class TestLosses:
    def test_an_accepted_order_that_is_not_there(self, world: World) -> None:
        world.accepted.add("gone")
        assert world.audit().lost == 1

    def test_an_order_that_is_not_charged(self, world: World) -> None:
        world.charges = world.charges[1:]
        assert world.audit().lost == 1

    def test_an_order_whose_money_was_given_back(self, world: World) -> None:
        world.charges[0] = Deed("good", "good:charge", undone=True)
        assert world.audit().lost == 1

    def test_an_order_that_is_not_shipped(self, world: World) -> None:
        world.parcels = []
        assert world.audit().lost == 1

    def test_an_order_that_is_not_booked(self, world: World) -> None:
        LedgerEntry.objects.filter(key="sale:good").delete()
        assert world.audit().lost == 1

    def test_an_order_that_is_booked_wrongly(self, world: World) -> None:
        LedgerEntry.objects.filter(key="sale:good").update(amount=2)
        assert world.audit().lost == 1

    def test_an_order_without_its_goods(self, world: World) -> None:
        Reservation.objects.all().delete()
        assert world.audit().lost == 1

    @pytest.mark.parametrize("state", [OrderState.PLACED, OrderState.PAID])
    def test_an_order_that_got_stuck(self, world: World, state: OrderState) -> None:
        Order.objects.filter(reference="good").update(state=state)
        assert world.audit().lost == 1

    @pytest.mark.parametrize("state", ["suspended", "dead"])
    def test_a_delivered_order_whose_job_did_not_complete(self, world: World, state: str) -> None:
        Job.objects.filter(input__reference="good").update(state=state)
        assert world.audit().lost == 1

    @pytest.mark.parametrize("state", ["suspended", "done"])
    def test_a_cancelled_order_whose_job_did_not_fail(self, world: World, state: str) -> None:
        Job.objects.filter(input__reference="failed").update(state=state)
        assert world.audit().lost == 1

    def test_a_cancelled_order_that_is_still_booked(self, world: World) -> None:
        LedgerEntry.objects.filter(key="return:failed").delete()
        assert world.audit().lost == 1


class TestDuplicates:
    def test_a_booking_that_was_asked_for_again(self, world: World) -> None:
        LedgerEntry.objects.filter(key="sale:good").update(repeats=2)
        assert world.audit().duplicates == 2

    def test_a_second_reminder(self, world: World) -> None:
        Order.objects.filter(reference="good").update(nudges=3)
        assert world.audit().duplicates == 2

    def test_a_second_job_for_an_order(self, world: World) -> None:
        job("good", twin="again")
        assert world.audit().duplicates == 1

    def test_a_second_parcel(self, world: World) -> None:
        world.parcels.append(Deed("good", "another key"))
        assert world.audit().duplicates == 1

    def test_a_second_run_unless_its_worker_was_killed(self, world: World) -> None:
        again = uuid5(UUID(int=0), "good")
        Job.objects.filter(pk=again).update(attempt=2, claim=2)
        assert world.audit().duplicates == 1

        world.interrupted = {again: 1}
        assert world.audit().duplicates == 0


class TestMoney:
    def test_a_second_charge_even_if_it_was_given_back(self, world: World) -> None:
        world.charges.append(Deed("good", "another key", undone=True))
        assert world.audit().charged_twice == 1

    def test_a_charge_that_was_not_given_back(self, world: World) -> None:
        world.charges[1] = Deed("failed", "failed:charge")
        assert world.audit().uncompensated == 1

    def test_a_parcel_that_was_not_called_back(self, world: World) -> None:
        world.parcels.append(Deed("failed", "failed:ship"))
        assert world.audit().uncompensated == 1

    def test_a_parcel_that_was_called_back(self, world: World) -> None:
        world.parcels.append(Deed("failed", "failed:ship", undone=True))
        assert world.audit().is_clean

    def test_goods_that_were_not_put_back(self, world: World) -> None:
        reserve("failed")
        assert world.audit().uncompensated == 1

    @pytest.mark.parametrize("change", [-1, 1])
    def test_goods_that_nobody_took_or_put_back(self, world: World, change: int) -> None:
        Stock.objects.update(left=F("left") + change)
        assert world.audit().uncompensated == 1


class TestInterruptions:
    def test_a_job_that_was_claimed_again_and_ended(self, world: World) -> None:
        good, failed = uuid5(UUID(int=0), "good"), uuid5(UUID(int=0), "failed")
        Job.objects.filter(pk__in=[good, failed]).update(attempt=2, claim=2)
        world.interrupted = {good: 1, failed: 1}

        assert world.audit().interrupted_and_resumed == 2

    def test_one_that_had_ended_at_the_last_moment_was_not_interrupted(self, world: World) -> None:
        world.interrupted = {uuid5(UUID(int=0), "good"): 1}

        assert world.audit().interrupted_and_resumed == 0

    def test_one_that_never_ended_was_not_resumed(self, world: World) -> None:
        good = uuid5(UUID(int=0), "good")
        Job.objects.filter(pk=good).update(state="suspended", attempt=2, claim=2)
        world.interrupted = {good: 1}

        assert world.audit().interrupted_and_resumed == 0


@pytest.mark.parametrize(
    "wrong", ["ghosts", "lost", "duplicates", "charged_twice", "uncompensated"]
)
def test_nothing_wrong_passes_as_clean(wrong: str) -> None:
    right = dict.fromkeys(Audit.__dataclass_fields__, 0)

    assert Audit(**right).is_clean
    assert not Audit(**right | {wrong: 1}).is_clean
    assert not Audit(**right | {"committed": 1}).is_clean
