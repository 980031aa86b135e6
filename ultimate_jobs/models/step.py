"""``x_job_steps``: what a run has done, kept across attempts."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from ultimate_jobs.core.replay import StepStatus


class JobStep(models.Model):
    """One step of one run; its name is its identity within the run."""

    pk = models.CompositePrimaryKey("run_id", "name")
    run_id = models.UUIDField()
    name = models.TextField()
    job_id = models.UUIDField()
    position = models.IntegerField(help_text="The order in which the run first reached its steps.")
    status = models.TextField(choices=[(status.value, status.value) for status in StepStatus])
    output = models.JSONField(null=True)
    error = models.TextField(null=True)
    attempts = models.IntegerField(
        db_default=models.Value(0), help_text="How often the function was called."
    )
    undoable = models.BooleanField(
        db_default=models.Value(False), help_text="Whether a compensation was declared with it."
    )
    started_at = models.DateTimeField(db_default=Now())
    completed_at = models.DateTimeField(null=True)
    wake_at = models.DateTimeField(null=True, help_text="End of the sleep, or of the wait.")
    event = models.TextField(null=True, help_text="The event that the run waits for.")
    match = models.TextField(null=True, help_text="The correlation key that the event must have.")
    waited_from = models.TextField(
        null=True,
        help_text="The database snapshot of the step, or of the moment from which it waits.",
    )

    class Meta:
        db_table = "x_job_steps"
        verbose_name = gettext_lazy("step")
        default_permissions = ("view",)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=Q(status__in=sorted(status.value for status in StepStatus)),
                name="x_job_steps_status_known",
            ),
            models.CheckConstraint(condition=~Q(name=""), name="x_job_steps_name_not_empty"),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["job_id"], name="x_job_steps_job_idx"),
            models.Index(
                fields=["event", "match"],
                condition=Q(status="waiting"),
                name="x_job_steps_waiting_idx",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.name}"
