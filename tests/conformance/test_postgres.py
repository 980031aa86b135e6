"""The PostgreSQL driver keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.tables import empty_tables
from ultimate_jobs.drivers.postgres.driver import PostgresDriver
from ultimate_jobs.testing.conformance import *  # noqa: F403
from ultimate_jobs.testing.conformance import Clock


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Commit for real, and delete it afterwards: these tests write to no table but the package's."""
    with django_db_blocker.unblock():
        yield
        empty_tables()


@pytest.fixture
def driver(clock: Clock, transactional_db: None) -> PostgresDriver:
    """Answer a driver over empty tables."""
    return PostgresDriver("default", clock=clock)
