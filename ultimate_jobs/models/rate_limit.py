"""``x_rate_limit``: the token buckets of the fleet."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy


class RateLimitBucket(models.Model):
    """One bucket. Only its key is indexed, so that a take rewrites no index."""

    key = models.TextField(primary_key=True, help_text="The limit's name, a colon, and the key.")
    tokens = models.FloatField(help_text="What it held at last_at.")
    capacity = models.FloatField()
    refill_per_second = models.FloatField()
    last_at = models.DateTimeField()
    spent = models.FloatField(help_text="What the last take got; zero when it was refused.")
    promised_until = models.DateTimeField(
        help_text="Refused runs have been given turns until then."
    )

    class Meta:
        db_table = "x_rate_limit"
        verbose_name = gettext_lazy("rate limit bucket")
        default_permissions = ("view",)
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(condition=~Q(key=""), name="x_rate_limit_key_not_empty"),
        ]

    def __str__(self) -> str:
        return self.key
