"""What all tests share."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from django.core.management.color import no_style
from django.db import connections  # noqa: TID251 - to empty tables
from django.test import TransactionTestCase
from hypothesis import HealthCheck, settings

from testproject import postgres

if TYPE_CHECKING:  # models need the setup, which comes later
    from tests.builders import Declarations
    from tests.worker.running import Events, Gate

FILLED_BY_MIGRATING = ("django_content_type", "auth_permission")

# How long an example takes says nothing about the code on a machine that others use as well.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A shell starts what it puts in the background with SIGINT ignored, and every child would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Start PostgreSQL when the first test wants the database, and name a database a process."""
    postgres.serve()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option."""
    parser.addoption(
        "--suspend-everywhere",
        action="store_true",
        help="suspend every run after each of its steps",
    )


@pytest.fixture(autouse=True)
def _suspended_everywhere(request: pytest.FixtureRequest) -> Iterator[None]:
    """Suspend every run after each of its steps, when that is asked for."""
    if not request.config.getoption("--suspend-everywhere"):
        yield
        return
    from ultimate_jobs.testing.boundaries import (  # noqa: PLC0415 - models need the setup
        every_boundary_suspends,
    )

    if request.node.get_closest_marker("counts_claims"):
        pytest.skip("it counts claims")
    with every_boundary_suspends():
        yield


@pytest.fixture(scope="session", autouse=True)
def what_migrating_fills_is_kept() -> Iterator[None]:
    """Empty every other table after a test that commits.

    Django empties those as well and fills them again, which takes longer than most tests. It does so
    here only when a test has changed them.
    """
    empty_all = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]
    known: dict[str, list[tuple[int, ...]]] = {}

    def empty(case: TransactionTestCase) -> None:
        aliases = case._databases_names(include_mirrors=False)  # type: ignore[attr-defined]
        if any(known.get(alias) != _filled(alias) for alias in aliases):
            empty_all(case)
            known.update({alias: _filled(alias) for alias in aliases})
        else:
            for alias in aliases:
                _empty_the_rest(alias)

    with patch.object(TransactionTestCase, "_fixture_teardown", empty):
        yield


def _filled(alias: str) -> list[tuple[int, ...]]:
    """Answer how many rows there are, and the last: different when one came or went."""
    counts = [f"SELECT count(*), max(id) FROM {table}" for table in FILLED_BY_MIGRATING]  # noqa: S608
    with connections[alias].cursor() as cursor:
        cursor.execute(" UNION ALL ".join(counts))
        return [tuple(row) for row in cursor.fetchall()]


def _empty_the_rest(alias: str) -> None:
    """Empty the other tables of which anything is on disk: most tests touch few."""
    connection = connections[alias]
    others = {*connection.introspection.django_table_names()} - {*FILLED_BY_MIGRATING}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relname = ANY (%s) AND pg_relation_size(oid) > 0"
            " AND relnamespace = current_schema()::regnamespace ORDER BY relname",
            [sorted(others)],
        )
        touched = [name for (name,) in cursor.fetchall()]
    connection.ops.execute_sql_flush(
        connection.ops.sql_flush(no_style(), touched, allow_cascade=True)
    )


@pytest.fixture
def declare() -> Iterator[Declarations]:
    """Declare throwaway jobs; they are forgotten after the test."""
    from tests.builders import Declarations  # noqa: PLC0415 - models need the setup

    with Declarations() as declarations:
        yield declarations


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Hold bodies; whoever is still held at the end of the test goes on."""
    from tests.worker.running import Gate  # noqa: PLC0415 - models need the setup

    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def events() -> Iterator[Events]:
    """Collect what is logged during the test."""
    from tests.worker.running import Events  # noqa: PLC0415 - models need the setup

    handler = Events()
    logger = logging.getLogger("ultimate_jobs")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
