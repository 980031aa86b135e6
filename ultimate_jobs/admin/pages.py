"""What the pages have in common: a closed ModelAdmin, links, the row of tabs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy

from ultimate_jobs.admin.permissions import may, require
from ultimate_jobs.admin.text import Words

if TYPE_CHECKING:
    PlainModelAdmin: TypeAlias = admin.ModelAdmin[Any]
else:
    PlainModelAdmin = admin.ModelAdmin


@dataclass(frozen=True, slots=True)
class Tab:
    """A page that every page links to: its title, the name of its URL, who may see it."""

    title: Words
    url_name: str
    permission: str


TABS = (
    Tab(gettext_lazy("Overview"), "overview_changelist", "view_job"),
    Tab(gettext_lazy("Jobs"), "job_changelist", "view_job"),
    Tab(gettext_lazy("Dead letters"), "job_dead", "view_job"),
    Tab(gettext_lazy("Queues"), "pause_changelist", "view_pause"),
    Tab(gettext_lazy("Tasks"), "taskstate_changelist", "view_taskstate"),
    Tab(gettext_lazy("Workers"), "worker_changelist", "view_worker"),
    Tab(gettext_lazy("Outbox"), "outboxentry_changelist", "view_outboxentry"),
)


class ClosedAdmin(PlainModelAdmin):
    """Rows that nobody adds, changes or deletes by hand: verbs move them, and nothing else does.

    ``sees`` is the permission of those who see its pages.
    """

    actions = None
    sees: ClassVar[str]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list, to look at, to those who may."""
        require(request, self.sees)
        return only_reads(request) or self.list_page(request)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the page of a row, to look at, to those who may."""
        require(request, self.sees)
        return only_reads(request) or self.row_page(request, object_id)

    @abstractmethod
    def list_page(self, request: HttpRequest) -> HttpResponse:
        """Answer the list, for a user who may see it."""

    def row_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer the page of a row; here the list, for rows without pages of their own."""
        return redirect(self.link(f"{self.opts.model_name}_changelist"))

    def view(self, page: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        """Make a page of a function: for staff alone, never cached, its forms protected."""
        return self.admin_site.admin_view(partial(page, self))

    def link(self, url_name: str, *args: object, query: Mapping[str, Any] | None = None) -> str:
        """Answer where a page of this app is."""
        return link(self.admin_site, url_name, *args, query=query)

    def page(
        self, request: HttpRequest, template: str, title: str, context: Mapping[str, Any]
    ) -> TemplateResponse:
        """Answer a page of this app."""
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request,
            f"admin/ultimate_jobs/{template}",
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "title": title,
                "tabs": tabs(self.admin_site, request),
                **context,
            },
        )


def link(
    site: admin.AdminSite,
    url_name: str,
    *args: object,
    query: Mapping[str, Any] | None = None,
) -> str:
    """Answer where a page of this app is in an admin site."""
    path = reverse(f"admin:ultimate_jobs_{url_name}", args=args, current_app=site.name)
    asked = {name: value for name, value in (query or {}).items() if value not in (None, "")}
    return f"{path}?{urlencode(asked, doseq=True)}" if asked else path


def tabs(site: admin.AdminSite, request: HttpRequest) -> list[dict[str, Any]]:
    """Answer the pages that the user may see."""
    seen = [tab for tab in TABS if may(request, tab.permission)]
    urls = [(tab, link(site, tab.url_name)) for tab in seen]
    return [{"title": tab.title, "url": url, "here": url == request.path} for tab, url in urls]


def only_reads(request: HttpRequest) -> HttpResponse | None:
    """Answer the refusal of a method that a page to look at does not have."""
    if request.method in {"GET", "HEAD"}:
        return None
    return HttpResponseNotAllowed(["GET", "HEAD"])
