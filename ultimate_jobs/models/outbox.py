"""``x_outbox``: what transactions staged, until the relay moves it to the queue."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from ultimate_jobs.models.columns import IDEMPOTENCY_NAMESPACE, Enqueueable


class OutboxEntry(Enqueueable):
    """One staged job; its id will be the job's id.

    Publishing moves the row to ``x_jobs``. A row is kept, marked published, only when a live job
    held its key: ``job_id`` then says which job answers for it.
    """

    staged_at = models.DateTimeField(db_default=Now())
    published_at = models.DateTimeField(null=True)
    job_id = models.UUIDField(null=True, help_text="The live job it was deduplicated onto.")
    refusals = models.IntegerField(
        db_default=models.Value(0), help_text="How often the queue refused the row."
    )
    retry_at = models.DateTimeField(null=True, help_text="A refused row is not tried before.")
    last_error = models.TextField(null=True, help_text="Why the queue refused it.")

    class Meta:
        db_table = "x_outbox"
        verbose_name = gettext_lazy("outbox entry")
        verbose_name_plural = gettext_lazy("outbox")
        default_permissions = ("view",)
        ordering: ClassVar[list[str]] = ["staged_at", "id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                *IDEMPOTENCY_NAMESPACE,
                condition=Q(published_at__isnull=True),
                name="x_outbox_name_tenant_idempotency_staged_idx",
            ),
            models.CheckConstraint(condition=~Q(name=""), name="x_outbox_name_not_empty"),
            models.CheckConstraint(condition=~Q(queue=""), name="x_outbox_queue_not_empty"),
            models.CheckConstraint(condition=~Q(idempotency_key=""), name="x_outbox_key_not_empty"),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["staged_at", "id"],
                condition=Q(published_at__isnull=True),
                name="x_outbox_staged_idx",
            ),
            models.Index(
                fields=["published_at"],
                condition=Q(published_at__isnull=False),
                name="x_outbox_published_idx",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.id}"
