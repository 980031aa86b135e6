"""``x_job_events``: events, stored so that a run that waits later still finds them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy


class Event(models.Model):
    """One published event."""

    id = models.UUIDField(primary_key=True, editable=False)
    name = models.TextField()
    correlation_key = models.TextField(null=True)
    payload = models.JSONField()
    published_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    xid = models.BigIntegerField(
        help_text="The publishing transaction: what a wait's snapshot did not see, came after it."
    )

    class Meta:
        db_table = "x_job_events"
        verbose_name = gettext_lazy("event")
        default_permissions = ("view",)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=~Q(name=""), name="x_job_events_name_not_empty"),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["name", "published_at", "id"], name="x_job_events_name_idx"),
            models.Index(fields=["expires_at"], name="x_job_events_expiry_idx"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.id}"
