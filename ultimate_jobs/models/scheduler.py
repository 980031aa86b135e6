"""``x_scheduler_state`` and ``x_scheduler_leader``: what was fired, and who fires."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy


class TaskState(models.Model):
    """How far one task has come.

    ``watermark`` only moves forward, in the statement that inserts the jobs: it is the fence that
    keeps an occurrence from being fired twice, whoever leads.
    """

    name = models.TextField(primary_key=True)
    rule = models.TextField(help_text="The cron expression and zone that the watermark belongs to.")
    watermark = models.DateTimeField(help_text="Occurrences up to it are fired or passed over.")
    last_fired = models.DateTimeField(
        null=True, help_text="The last occurrence that queued its jobs."
    )
    fired_at = models.DateTimeField(null=True, help_text="When it did.")

    class Meta:
        db_table = "x_scheduler_state"
        verbose_name = gettext_lazy("task")
        default_permissions = ("view",)
        permissions = (
            ("fire_task", "Can fire a task"),
            ("pause_task", "Can pause a task"),
            ("resume_task", "Can resume a task"),
        )
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=~Q(name=""), name="x_scheduler_state_name_not_empty"),
        ]

    def __str__(self) -> str:
        return self.name


class SchedulerLeader(models.Model):
    """The scheduler that dispatches: at most one row, and no longer than ``expires_at``."""

    id = models.SmallIntegerField(primary_key=True)
    holder = models.TextField()
    since = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "x_scheduler_leader"
        verbose_name = gettext_lazy("scheduler leader")
        default_permissions = ("view",)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=Q(id=1), name="x_scheduler_leader_is_one"),
        ]

    def __str__(self) -> str:
        return self.holder
