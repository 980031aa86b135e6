"""``x_job_counters``: endings by job and span of time."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy


class Counter(models.Model):
    """What ended in one bucket of time.

    Each worker process adds to one ``shard``, so that processes that settle at the same moment
    do not wait for each other; a reader sums the shards. Old buckets are folded into longer ones:
    an ending is counted in exactly one row, so a reader sums whatever ``span`` it meets.
    """

    id = models.BigAutoField(primary_key=True)
    span = models.SmallIntegerField(
        db_default=models.Value(1), help_text="Length of the bucket in minutes."
    )
    bucket = models.DateTimeField(help_text="Its start.")
    name = models.TextField()
    shard = models.SmallIntegerField(db_default=models.Value(0))
    done = models.BigIntegerField(db_default=models.Value(0))
    retried = models.BigIntegerField(db_default=models.Value(0))
    failed = models.BigIntegerField(db_default=models.Value(0))
    dead = models.BigIntegerField(db_default=models.Value(0))
    duration_ms = models.BigIntegerField(db_default=models.Value(0))

    class Meta:
        db_table = "x_job_counters"
        verbose_name = gettext_lazy("counter")
        default_permissions = ("view",)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["span", "bucket", "name", "shard"], name="x_job_counters_bucket"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.bucket:%Y-%m-%d %H:%M}"
