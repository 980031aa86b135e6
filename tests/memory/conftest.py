"""Fixtures of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from ultimate_jobs.testing.conformance import Clock


@pytest.fixture
def clock() -> Clock:
    """Answer a clock that stands still until it is moved."""
    return Clock()


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Commit for real: nothing that these tests keep is written to the database."""
    with django_db_blocker.unblock():
        yield
