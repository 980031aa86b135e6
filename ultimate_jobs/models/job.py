"""``x_jobs``: the queue, and the record of what it ran."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from ultimate_jobs.core.selection import UNSUCCESSFUL
from ultimate_jobs.core.states import LIVE, TERMINAL, WAITING, JobState
from ultimate_jobs.models.columns import IDEMPOTENCY_NAMESPACE, Enqueueable

_STATES = sorted(state.value for state in JobState)
_LIVE = sorted(state.value for state in LIVE)
_WAITING = sorted(state.value for state in WAITING)
_TERMINAL = sorted(state.value for state in TERMINAL)
_UNSUCCESSFUL = sorted(state.value for state in UNSUCCESSFUL)


class Job(Enqueueable):
    """One job. ``id`` is also the id of its outbox row, when it was staged."""

    state = models.TextField(choices=[(state.value, state.value) for state in JobState])
    attempt = models.IntegerField(
        db_default=models.Value(0), help_text="Starts so far, those handed back left out."
    )
    claim = models.IntegerField(
        db_default=models.Value(0), help_text="The fence: a new number at every claim."
    )
    claimed_by = models.TextField(null=True, help_text="The worker process that runs it.")
    visible_at = models.DateTimeField(
        null=True, help_text="The claim holds until then, or while its worker shows signs of life."
    )
    blocked = models.BooleanField(
        db_default=models.Value(False),
        help_text="Stands by until a run with its lease key leaves a slot.",
    )
    last_error = models.TextField(null=True)
    progress = models.JSONField(null=True)
    result = models.JSONField(null=True, help_text="What the body returned.")
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "x_jobs"
        verbose_name = gettext_lazy("job")
        default_permissions = ("view",)
        permissions = (
            ("view_payload", "Can see inputs, results and outputs, redacted"),
            ("retry_job", "Can retry a job"),
            ("cancel_job", "Can cancel a job"),
            ("promote_job", "Can make a job due now"),
            ("remove_job", "Can remove a job"),
            ("resolve_step", "Can say how a step in doubt ended"),
        )
        ordering: ClassVar[list[str]] = ["-created_at", "-id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                *IDEMPOTENCY_NAMESPACE,
                condition=Q(state__in=_LIVE),
                name="x_jobs_name_tenant_idempotency_live_idx",
            ),
            models.CheckConstraint(condition=Q(state__in=_STATES), name="x_jobs_state_known"),
            models.CheckConstraint(condition=~Q(name=""), name="x_jobs_name_not_empty"),
            models.CheckConstraint(condition=~Q(queue=""), name="x_jobs_queue_not_empty"),
            models.CheckConstraint(condition=~Q(idempotency_key=""), name="x_jobs_key_not_empty"),
            models.CheckConstraint(
                condition=Q(attempt__gte=0, max_attempts__gte=1), name="x_jobs_attempts_counted"
            ),
            models.CheckConstraint(
                condition=~Q(state="running")
                | Q(claimed_by__isnull=False, visible_at__isnull=False),
                name="x_jobs_running_is_claimed",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                F("queue"),
                F("priority").desc(),
                F("run_at"),
                F("id"),
                F("name"),
                condition=Q(state__in=_WAITING, blocked=False),
                name="x_jobs_claim_idx",
            ),
            models.Index(
                fields=["lease_key", "run_at"],
                condition=Q(state__in=_WAITING, blocked=False, lease_key__isnull=False),
                name="x_jobs_lease_key_idx",
            ),
            models.Index(
                F("lease_key"),
                F("priority").desc(),
                F("run_at"),
                F("id"),
                condition=Q(state__in=_WAITING, blocked=True),
                name="x_jobs_blocked_idx",
            ),
            models.Index(
                fields=["queue", "run_at"],
                condition=Q(state__in=_WAITING, blocked=True),
                name="x_jobs_standing_by_idx",
            ),
            models.Index(
                fields=["claimed_by", "visible_at"],
                condition=Q(state="running"),
                name="x_jobs_running_idx",
            ),
            models.Index(fields=["-created_at", "-id"], name="x_jobs_created_idx"),
            models.Index(
                fields=["state", "updated_at"],
                condition=Q(state__in=_TERMINAL),
                name="x_jobs_finished_idx",
            ),
            models.Index(
                fields=["-created_at", "-id"],
                include=["queue", "state"],
                condition=Q(state__in=_UNSUCCESSFUL),
                name="x_jobs_unsuccessful_idx",
            ),
            models.Index(
                fields=["idempotency_key"],
                condition=Q(state__in=_TERMINAL),
                name="x_jobs_ended_key_idx",
            ),
            models.Index(
                fields=["related_type", "related_id"],
                condition=Q(related_id__isnull=False),
                name="x_jobs_related_idx",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.id}"
