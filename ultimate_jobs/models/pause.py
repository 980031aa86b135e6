"""``x_job_pauses``: what operators stopped."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy


class Pause(models.Model):
    """A paused queue, which nothing claims from, or a paused task, which is not fired."""

    class Kind(models.TextChoices):
        """What can be paused."""

        QUEUE = "queue"
        TASK = "task"

    id = models.BigAutoField(primary_key=True)
    kind = models.TextField(choices=Kind)
    name = models.TextField()
    paused_at = models.DateTimeField(db_default=Now())
    paused_by = models.TextField(null=True)
    reason = models.TextField(null=True)

    class Meta:
        db_table = "x_job_pauses"
        verbose_name = gettext_lazy("queue")
        verbose_name_plural = gettext_lazy("queues")
        default_permissions = ("view",)
        permissions = (
            ("pause_queue", "Can pause a queue"),
            ("resume_queue", "Can resume a queue"),
        )
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["kind", "name"], name="x_job_pauses_once"),
            models.CheckConstraint(condition=~Q(name=""), name="x_job_pauses_name_not_empty"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
