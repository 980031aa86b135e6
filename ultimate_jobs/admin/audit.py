"""The line in the admin's log for everything that is done: who, what, why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import models, transaction
from django.http import HttpRequest
from django.utils.translation import override

from ultimate_jobs.admin.text import visible
from ultimate_jobs.conf import get_settings

MOST_REPR_CHARS = 200


@contextmanager
def together() -> Iterator[None]:
    """Let what is done and its line in the log be one transaction, where both are in one database.

    The log is in English, whoever writes and whoever reads it.
    """
    with transaction.atomic(using=get_settings().database), override("en"):
        yield


def actor(request: HttpRequest) -> str:
    """Answer the name under which the user acts, for the record."""
    return request.user.get_username()


def record(
    request: HttpRequest,
    model: type[models.Model],
    about: str,
    did: str,
    *,
    object_id: str | None = None,
    removed: bool = False,
    reason: str | None = None,
    **details: Any,
) -> None:
    """Write who did what to which object, and why."""
    words = [did, *(f"{name}: {value}" for name, value in details.items() if value is not None)]
    if reason:
        words.append(f"reason: {reason}")
    # Whoever is here has signed in, and has a key.
    LogEntry.objects.create(  # type: ignore[misc]
        user_id=request.user.pk,
        content_type=ContentType.objects.get_for_model(model),
        object_id=object_id,
        object_repr=visible(about)[:MOST_REPR_CHARS],
        action_flag=DELETION if removed else CHANGE,
        change_message=visible("; ".join(words)),
    )
