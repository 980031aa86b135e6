"""The ledger books an effect once and counts who had no reason to ask again."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import pytest

from testproject.shop.ledger import book
from testproject.shop.models import LedgerEntry

pytestmark = pytest.mark.django_db

JOB = UUID(int=1)
OTHER_JOB = UUID(int=2)


def charge(job_id: UUID, attempt: int) -> bool:
    return book("charge", "a-1", Decimal(1), job_id=job_id, attempt=attempt)


def test_the_first_call_books() -> None:
    assert charge(JOB, 1)
    assert LedgerEntry.objects.get().key == "charge:a-1"


def test_a_later_attempt_finds_the_entry_of_the_one_before() -> None:
    charge(JOB, 1)

    assert not charge(JOB, 2)
    assert LedgerEntry.objects.get().repeats == 0


@pytest.mark.parametrize(("job_id", "attempt"), [(OTHER_JOB, 1), (OTHER_JOB, 2), (JOB, 1)])
def test_any_other_call_is_a_repeat(job_id: UUID, attempt: int) -> None:
    charge(JOB, 1)

    assert not charge(job_id, attempt)
    assert LedgerEntry.objects.get().repeats == 1
