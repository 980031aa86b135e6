"""Columns that staged and queued jobs have in common, and the one key they compete for."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Coalesce, Now

IDEMPOTENCY_NAMESPACE = (
    models.F("idempotency_key"),  # first, so that a key is found without its name and tenant
    models.F("name"),
    Coalesce(models.F("tenant_id"), models.Value("")),
)


class Enqueueable(models.Model):
    """What an enqueue decides about a job."""

    id = models.UUIDField(primary_key=True, editable=False)
    run_id = models.UUIDField(help_text="Names the run that steps belong to; kept across attempts.")
    name = models.TextField()
    queue = models.TextField(db_default=models.Value("default"))
    priority = models.IntegerField(db_default=models.Value(0), help_text="Higher goes first.")
    input = models.JSONField()
    idempotency_key = models.TextField()
    lease_key = models.TextField(
        null=True, help_text="The key whose runs share a cap; empty for a job without one."
    )
    max_attempts = models.IntegerField(db_default=models.Value(3))
    run_at = models.DateTimeField(db_default=Now(), help_text="Not claimed before this instant.")
    tenant_id = models.TextField(null=True, help_text="Who enqueued it: their tenant.")
    traceparent = models.TextField(null=True, help_text="W3C trace context of the enqueue.")
    enqueued_by = models.TextField(null=True, help_text="Who enqueued it, for the record only.")
    related_type = models.ForeignKey(
        "contenttypes.ContentType",  # by name: E003 is there for a project without it
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
        help_text="What kind of object the job is about.",
    )
    related_id = models.TextField(null=True, help_text="Which object the job is about.")

    class Meta:
        abstract = True
