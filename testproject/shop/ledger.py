"""Booking a side effect once, and counting who asks again."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.db.models import F

from testproject.shop.models import LedgerEntry


def book(effect: str, reference: str, amount: Decimal, *, job_id: UUID, attempt: int) -> bool:
    """Book the effect and answer whether this call did it.

    A later attempt of the same job may find its own entry: the one before was killed after booking.
    Any other second call is a repeat.
    """
    entry, is_new = LedgerEntry.objects.get_or_create(
        key=f"{effect}:{reference}",
        defaults={
            "reference": reference,
            "amount": amount,
            "job_id": job_id,
            "attempt": attempt,
        },
    )
    if not is_new and (entry.job_id != job_id or entry.attempt >= attempt):
        LedgerEntry.objects.filter(pk=entry.pk).update(repeats=F("repeats") + 1)
    return is_new
