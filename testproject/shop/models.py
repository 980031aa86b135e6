"""What the shop sells and what it booked."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

SHELF = 1_000


class OrderState(models.TextChoices):
    PLACED = "placed"
    PAID = "paid"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"


class Order(models.Model):
    """What a customer ordered. The client chooses the reference, so that it can ask again."""

    reference = models.CharField(max_length=64, unique=True)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    sku = models.CharField(max_length=32, default="mug")
    card = models.CharField(max_length=32, default="card")
    address = models.CharField(max_length=200, default="1 Main Street")
    state = models.CharField(max_length=16, choices=OrderState.choices, default=OrderState.PLACED)
    nudges = models.IntegerField(default=0, help_text="How often the customer was reminded.")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return self.reference


class Stock(models.Model):
    """A shelf of one product. It is full when it is first looked at."""

    sku = models.CharField(max_length=32, unique=True)
    received = models.IntegerField(default=SHELF)
    left = models.IntegerField(default=SHELF)

    class Meta:
        verbose_name_plural = "stock"
        constraints = [
            models.CheckConstraint(condition=Q(left__gte=0), name="shop_stock_not_negative"),
        ]

    def __str__(self) -> str:
        return self.sku


class Reservation(models.Model):
    """One piece that was taken from a shelf for an order."""

    order = models.OneToOneField(Order, on_delete=models.CASCADE)
    shelf = models.ForeignKey(Stock, on_delete=models.PROTECT)

    def __str__(self) -> str:
        return f"{self.shelf} for {self.order}"


class LedgerEntry(models.Model):
    """One booking. Its key is unique: no effect can be booked twice; amounts add up to what was sold.

    It refers to the order by reference and to the job by id, with no foreign key: books outlive
    what they are about.
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


class Digest(models.Model):
    """What was ordered on one day of the shop's calendar."""

    day = models.DateField(unique=True)
    orders = models.IntegerField()
    amount = models.DecimalField(max_digits=14, decimal_places=2)

    class Meta:
        ordering = ["-day"]

    def __str__(self) -> str:
        return self.day.isoformat()
