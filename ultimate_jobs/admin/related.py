"""``JobsFor``: the jobs about an object, on the object's own page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _, gettext_lazy

from ultimate_jobs.admin.pages import link
from ultimate_jobs.admin.permissions import VIEW_JOB, may
from ultimate_jobs.admin.rows import job_row
from ultimate_jobs.models import Job
from ultimate_jobs.operate.inspection import Filter, page_of_jobs, related_of

if TYPE_CHECKING:
    _Mixed: TypeAlias = admin.ModelAdmin[Any]
else:
    _Mixed = object

SHOWN = 10
FIELD = "jobs_for_object"


class JobsFor(_Mixed):
    """Adds the newest jobs that were enqueued with ``related=`` the object, for those who may see jobs.

        class OrderAdmin(JobsFor, admin.ModelAdmin): ...

    It is a read-only field in a fieldset of its own, at the end, so it suits any form and any theme.
    """

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Leave the field out of the object's own fieldset."""
        return [field for field in super().get_fields(request, obj) if field != FIELD]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Add the fieldset to the page of a saved object."""
        own = list(super().get_fieldsets(request, obj))
        return [*own, (_("Jobs"), {"fields": [FIELD]})] if self._shows_jobs(request, obj) else own

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Add the field to the page of a saved object."""
        own = list(super().get_readonly_fields(request, obj))
        return [*own, FIELD] if self._shows_jobs(request, obj) else own

    @property
    def media(self) -> forms.Media:
        """Add the style sheet."""
        return super().media + forms.Media(css={"all": ["ultimate_jobs/admin.css"]})

    @admin.display(description=gettext_lazy("Jobs for this object"))
    def jobs_for_object(self, obj: Any) -> SafeString:
        """Show the newest jobs about an object."""
        kind, key = related = related_of(obj)
        page = page_of_jobs(Filter(related=related, limit=SHOWN))
        context = {
            "jobs": [job_row(self.admin_site, job) for job in page.jobs],
            "all_url": link(self.admin_site, "job_changelist", query={"related": f"{kind}:{key}"}),
        }
        return render_to_string("admin/ultimate_jobs/jobs_for.html", context)

    def _shows_jobs(self, request: HttpRequest, obj: Any) -> bool:
        return obj is not None and may(request, VIEW_JOB) and self.admin_site.is_registered(Job)
