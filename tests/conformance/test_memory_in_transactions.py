"""The memory driver keeps the contract where Django's own transactions decide what is committed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.testing.conformance import *  # noqa: F403
from ultimate_jobs.testing.conformance import Clock


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Commit for real: nothing is written to the database."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture
def driver(clock: Clock, transactional_db: None) -> MemoryDriver:
    """Answer a driver that follows the transactions of a database."""
    return MemoryDriver("default", clock=clock)
