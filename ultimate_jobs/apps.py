"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class UltimateJobsConfig(AppConfig):
    """Wire the app: register the checks, then discover every installed app's ``jobs`` module."""

    name = "ultimate_jobs"
    verbose_name = gettext_lazy("Jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register and discover; no query is made."""
        from ultimate_jobs import checks
        from ultimate_jobs.definitions.registry import autodiscover

        checks.register_all()
        autodiscover()
