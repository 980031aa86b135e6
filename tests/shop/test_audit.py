"""The demo's audit sees each kind of damage."""

from __future__ import annotations

from uuid import UUID, uuid5

import pytest

from testproject.demo.audit import Audit, Told, audit
from testproject.shop.models import LedgerEntry, Order, OrderState
from ultimate_jobs.models import Job

pytestmark = pytest.mark.django_db


def order(reference: str, *, state: OrderState = OrderState.PAID) -> None:
    Order.objects.create(reference=reference, amount=1, state=state)


def entry(reference: str, *, repeats: int = 0) -> None:
    LedgerEntry.objects.create(
        key=f"charge:{reference}",
        reference=reference,
        amount=1,
        job_id=UUID(int=1),
        attempt=1,
        repeats=repeats,
    )


def job(reference: str, *, attempt: int = 1, twin: str = "") -> UUID:
    job_id = uuid5(UUID(int=0), reference + twin)
    Job.objects.create(
        id=job_id,
        run_id=job_id,
        name="shop.checkout",
        idempotency_key=f"checkout:{reference}",
        input={"reference": reference},
        state="done",
        attempt=attempt,
    )
    return job_id


def found(
    accepted: set[str], refused: set[str] | None = None, interrupted: set[UUID] | None = None
) -> Audit:
    return audit(Told(accepted, refused or set(), interrupted or set()))


@pytest.fixture(autouse=True)
def _one_good_order() -> None:
    order("good")
    entry("good")
    job("good")


def test_what_went_well_shows_nothing() -> None:
    assert found({"good"}, {"bad"}) == Audit(
        committed=1, rolled_back=1, completed=1, ghosts=0, lost=0, duplicates=0
    )


def test_an_effect_without_an_order_is_a_ghost() -> None:
    entry("bad")
    assert found({"good"}, {"bad"}).ghosts == 1


def test_a_job_without_an_order_is_a_ghost() -> None:
    job("bad")
    assert found({"good"}, {"bad"}).ghosts == 1


def test_a_refused_order_that_is_there_is_a_ghost() -> None:
    order("bad")
    entry("bad")
    job("bad")
    assert found({"good"}, {"bad"}).ghosts == 1


def test_an_accepted_order_that_is_not_there_is_lost() -> None:
    assert found({"good", "gone"}).lost == 1


def test_an_order_without_an_effect_is_lost() -> None:
    order("unbooked")
    job("unbooked")
    assert found({"good", "unbooked"}).lost == 1


def test_an_order_that_is_not_paid_is_lost() -> None:
    order("unpaid", state=OrderState.PLACED)
    entry("unpaid")
    assert found({"good", "unpaid"}).lost == 1


def test_a_repeated_effect_is_a_duplicate() -> None:
    order("twice")
    entry("twice", repeats=2)
    assert found({"good", "twice"}).duplicates == 2


def test_a_second_job_for_an_order_is_a_duplicate() -> None:
    job("good", twin="again")
    assert found({"good"}).duplicates == 1


def test_a_second_run_is_a_duplicate_unless_its_worker_was_killed() -> None:
    order("again")
    entry("again")
    again = job("again", attempt=2)

    assert found({"good", "again"}).duplicates == 1
    assert found({"good", "again"}, interrupted={again}).duplicates == 0
