"""The soak as a Django app."""

from __future__ import annotations

from django.apps import AppConfig


class SoakConfig(AppConfig):
    name = "testproject.soak"
    label = "soak"
    default_auto_field = "django.db.models.BigAutoField"
