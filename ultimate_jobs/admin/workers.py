"""The worker processes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from ultimate_jobs.admin.pages import ClosedAdmin, only_reads
from ultimate_jobs.admin.permissions import require
from ultimate_jobs.admin.rows import local
from ultimate_jobs.admin.text import harmless
from ultimate_jobs.operate.workers import WorkerRow, workers

VIEW_WORKER = "view_worker"


class WorkerAdmin(ClosedAdmin):
    """Worker processes, each by its sign of life."""

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the processes."""
        require(request, VIEW_WORKER)
        return only_reads(request) or workers_page(self, request)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Lead to the list: a process has no page of its own."""
        require(request, VIEW_WORKER)
        return only_reads(request) or redirect(self.link("worker_changelist"))


def workers_page(admin: ClosedAdmin, request: HttpRequest) -> HttpResponse:
    """Show every column that the operator's answer has."""
    names = [field.name for field in fields(WorkerRow) if field.name not in ("id", "alive")]
    context = {
        "columns": [name.replace("_", " ").capitalize() for name in names],
        "workers": [
            {
                "id": row["id"],
                "alive": row["alive"],
                "cells": [_cell(name, row[name]) for name in names],
            }
            for row in harmless(workers())
        ],
    }
    return admin.page(request, "workers.html", "Workers", context)


def _cell(name: str, value: Any) -> str:
    if name.endswith("_at"):
        return local(value)
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)
