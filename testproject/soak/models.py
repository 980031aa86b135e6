"""What the soak's jobs and producers leave behind."""

from __future__ import annotations

from django.db import models


class Batch(models.Model):
    """Written by the transaction that stages jobs: whoever finds it knows that it committed."""

    key = models.CharField(max_length=64, unique=True)

    def __str__(self) -> str:
        return self.key


class Effect(models.Model):
    """One call of one step. Nothing is unique: what happens twice is there twice."""

    key = models.CharField(max_length=64, help_text="The key of the job.")
    step = models.CharField(max_length=16)
    answered = models.BooleanField(default=False, help_text="Whether its event was published.")

    class Meta:
        indexes = [
            models.Index(
                fields=["id"],
                condition=models.Q(step="ask", answered=False),
                name="soak_effect_open_idx",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.key}: {self.step}"
