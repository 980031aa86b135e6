"""``x_job_leases``: the slots of capped jobs that runs occupy."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy


class Lease(models.Model):
    """One occupied slot of one key; two runs that want the same slot are told apart by this row.

    It belongs to one claim of one run, is renewed with the signs of life of its worker, and is
    free again once it is deleted or ``expires_at`` has passed.
    """

    pk = models.CompositePrimaryKey("lease_key", "slot")
    lease_key = models.TextField()
    slot = models.IntegerField(help_text="From 1 to the cap.")
    job_id = models.UUIDField()
    run_id = models.UUIDField()
    claim = models.IntegerField()
    worker = models.TextField()
    acquired_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "x_job_leases"
        verbose_name = gettext_lazy("lease")
        default_permissions = ("view",)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=Q(slot__gte=1), name="x_job_leases_slot_counted"),
            models.CheckConstraint(condition=~Q(lease_key=""), name="x_job_leases_key_not_empty"),
        ]

    def __str__(self) -> str:
        return f"{self.lease_key} {self.slot}"
