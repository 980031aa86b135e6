"""A project's own kind of key."""

from __future__ import annotations

from django.db import models


class OwnAutoField(models.BigAutoField):  # type: ignore[type-arg]
    """Numbers of 64 bits under another name."""
