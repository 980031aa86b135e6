"""What the shop sells and what it booked."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class OrderState(models.TextChoices):
    PLACED = "placed"
    PAID = "paid"


class Order(models.Model):
    """What a customer ordered. The client chooses the reference, so that it can ask again."""

    reference = models.CharField(max_length=64, unique=True)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    state = models.CharField(max_length=16, choices=OrderState.choices, default=OrderState.PLACED)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return self.reference


class LedgerEntry(models.Model):
    """One side effect of an order. Its key is unique: no effect can be booked twice.

    It refers to the order by reference and to the job by id, with no foreign key: a payment
    provider would not be rolled back with our transaction either.
    """

    key = models.CharField(max_length=128, unique=True)
    reference = models.CharField(max_length=64, db_index=True)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    job_id = models.UUIDField()
    attempt = models.IntegerField(help_text="The attempt of the job that booked it.")
    repeats = models.IntegerField(
        default=0, help_text="How often a run that had no reason to exist asked for it again."
    )
    booked_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "ledger entries"
        ordering = ["-booked_at", "-id"]

    def __str__(self) -> str:
        return self.key
