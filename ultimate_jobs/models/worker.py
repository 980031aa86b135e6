"""``x_job_workers``: the worker processes and their signs of life."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy


class Worker(models.Model):
    """One worker process, from its start to its end; a restarted process is another row.

    While ``expires_at`` lies ahead, every claim of the process holds: one row renewed for all of
    them, instead of each job row rewritten. A process that is killed disappears when it passes.
    """

    id = models.TextField(primary_key=True)
    host = models.TextField(db_default=models.Value(""))
    pid = models.IntegerField(db_default=models.Value(0))
    queues = models.JSONField(
        db_default=models.Value([], output_field=models.JSONField()),
        help_text="The queues it serves.",
    )
    jobs = models.JSONField(
        db_default=models.Value([], output_field=models.JSONField()),
        help_text="The names of the jobs it knows.",
    )
    concurrency = models.IntegerField(
        db_default=models.Value(0), help_text="Bodies it runs at once, at most."
    )
    state = models.TextField(db_default=models.Value(""))
    running = models.JSONField(
        db_default=models.Value([], output_field=models.JSONField()),
        help_text="The jobs it held at its last sign of life.",
    )
    started_at = models.DateTimeField(db_default=Now())
    beat_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "x_job_workers"
        verbose_name = gettext_lazy("worker")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.id
