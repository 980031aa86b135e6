"""The time that rules go by in Python: the machine's, unless a test has put its own in place.

What is due is judged by the database's clock, and statements take care of that themselves. This
is for the rest: budgets and rests that a process keeps in memory, and questions about "now".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol

from django.db.models import DateTimeField, Expression, Value
from django.db.models.functions import Now


class Time(Protocol):
    """Says what time it is."""

    def now(self) -> datetime:
        """Answer the instant, in UTC."""

    def monotonic(self) -> float:
        """Answer seconds that never go back."""


_in_place: list[Time] = []


def monotonic() -> float:
    """Answer seconds that never go back."""
    return _in_place[-1].monotonic() if _in_place else time.monotonic()


def now() -> datetime:
    """Answer the instant, in UTC."""
    return _in_place[-1].now() if _in_place else datetime.now(UTC)  # noqa: TID251 - the one place


def database_now() -> Expression:
    """Answer the time of a statement, for a query of the ORM."""
    return Value(now(), output_field=DateTimeField()) if _in_place else Now()


@contextmanager
def going_by(source: Time) -> Iterator[None]:
    """Let this process go by another time inside the block; for tests."""
    _in_place.append(source)
    try:
        yield
    finally:
        _in_place.remove(source)
