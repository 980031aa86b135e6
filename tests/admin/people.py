"""Who looks: users with exactly these permissions, and the addresses they ask for.

    client = somebody("view_job", "retry_job")
    answer = client.get(url("job_change", job.id))
    assert said(answer) == ["..."]

Statements are counted without those that say who is asking: session, user, permissions.
"""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from tests.postgres.test_operate_plans import Asked, watched

VIEWS = ("view_job", "view_pause", "view_taskstate", "view_worker", "view_outboxentry")
VERBS = ("retry_job", "cancel_job", "promote_job", "remove_job", "resolve_step")
_WHO = ("django_session", "auth_user", "auth_permission", "auth_group", "django_content_type")


def somebody(*permissions: str, superuser: bool = False, csrf: bool = False) -> Client:
    """Sign in a member of staff who may do exactly this."""
    users = get_user_model().objects
    name = f"user-{users.count()}"
    user = users.create_user(name, is_staff=True, is_superuser=superuser)
    mine = Permission.objects.filter(
        content_type__app_label="ultimate_jobs", codename__in=permissions
    )
    assert mine.count() == len(permissions)
    user.user_permissions.set(mine)
    client = Client(enforce_csrf_checks=csrf)
    client.force_login(user)
    return client


def url(name: str, /, *args: Any, **query: Any) -> str:
    """Answer the address of a page."""
    path = reverse(f"admin:ultimate_jobs_{name}", args=args)
    return f"{path}?{urlencode(query, doseq=True)}" if query else path


def said(answer: Any) -> list[str]:
    """Answer the messages that a page shows."""
    return [str(message) for message in answer.context["messages"]]


def log() -> list[LogEntry]:
    """Read the admin's log, the oldest line first."""
    return list(LogEntry.objects.order_by("pk"))


def statements(ask: Callable[[], object]) -> list[Asked]:
    """Note what is asked of the database, without the questions who asks."""
    with watched() as asked:
        ask()
    return [one for one in asked if not any(f'"{table}' in one.text for table in _WHO)]


class Markup(HTMLParser):
    """What a browser would make of a page: its tags, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Answer the attributes of every such tag."""
        return [attributes for name, attributes in self.tags if name == tag]


def seen(answer: Any) -> Markup:
    """Read a page as a browser does."""
    return Markup(answer.content.decode())
