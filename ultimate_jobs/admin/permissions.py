"""Who may see and do what: one permission for each verb, asked on every request."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

VIEW_JOB = "view_job"
VIEW_PAYLOAD = "view_payload"


def may(request: HttpRequest, *codenames: str) -> bool:
    """Answer whether the user has every one of these permissions of this app."""
    user = request.user
    return all(user.has_perm(f"ultimate_jobs.{codename}") for codename in codenames)


def require(request: HttpRequest, *codenames: str) -> None:
    """Refuse a user who lacks one of these permissions of this app.

    Raises:
        PermissionDenied: one is missing.

    """
    if not may(request, *codenames):
        raise PermissionDenied
