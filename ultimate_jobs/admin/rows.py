"""A job as a row of a table, the same on every page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib.admin import AdminSite
from django.utils.timezone import localtime

from ultimate_jobs.admin.pages import link
from ultimate_jobs.admin.text import first_line, harmless


def job_row(site: AdminSite, job: Mapping[str, Any]) -> dict[str, Any]:
    """Answer what the tables show of a listed job, with the address of its page."""
    shown = harmless({**job, "last_error": first_line(job["last_error"])})
    times = {"created": local(job["created_at"]), "updated": local(job["updated_at"])}
    return {**shown, **times, "url": link(site, "job_change", job["id"])}


def local(instant: str | None) -> str:
    """Write an instant by the clock of the project, to the second."""
    if instant is None:
        return ""
    return f"{localtime(datetime.fromisoformat(instant)):%Y-%m-%d %H:%M:%S}"


def as_written(instant: str | None) -> str:
    """Write an instant by the clock that it is told in, to the second."""
    return "" if instant is None else f"{datetime.fromisoformat(instant):%Y-%m-%d %H:%M:%S}"
