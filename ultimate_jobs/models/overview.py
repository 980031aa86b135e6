"""The overview's place among the models: no table, no permissions, a name in the list of an admin."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from ultimate_jobs.models.job import Job


class Overview(Job):
    """Everything at a glance.

    Every admin site lists its models, and nothing else: as a model the page is in that list, under
    any theme, with a URL of its own. Who may see jobs may see it.
    """

    class Meta:
        proxy = True
        default_permissions = ()
        verbose_name = gettext_lazy("overview")
        verbose_name_plural = gettext_lazy("overview")
