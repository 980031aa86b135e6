"""``x_job_workers``: signs of life of worker processes."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Worker(models.Model):
    """One worker process, from its start to its end; a restarted process is another row.

    While ``expires_at`` lies ahead, every claim of the process holds: one row renewed for all of
    them, instead of each job row rewritten.
    """

    id = models.TextField(primary_key=True)
    started_at = models.DateTimeField(db_default=Now())
    beat_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "x_job_workers"
        verbose_name = "worker"
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.id
