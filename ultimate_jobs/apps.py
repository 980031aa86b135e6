"""The Django app."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.utils.module_loading import import_string
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
        backends = _task_backends()
        if backends:
            from ultimate_jobs.tasks import discovery

            discovery.autodiscover(backends)


def _task_backends() -> dict[str, Any]:
    """Answer the entries of ``TASKS`` whose backend is ours; what cannot be read is Django's to tell."""
    from django.conf import settings

    ours: dict[str, Any] = {}
    for alias, entry in getattr(settings, "TASKS", {}).items():
        try:
            backend = import_string(entry["BACKEND"])
        except (ImportError, KeyError):
            continue
        if getattr(backend, "is_ultimate_jobs", False):
            ours[alias] = entry
    return ours
