"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class UltimateJobsConfig(AppConfig):
    """Wire the app: register the checks, then discover every installed app's ``jobs`` module."""

    name = "ultimate_jobs"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register and discover; no query is made."""
        from ultimate_jobs import checks
        from ultimate_jobs.definitions.registry import autodiscover

        checks.register_all()
        autodiscover()
