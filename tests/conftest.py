"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from testproject import postgres

# How long an example takes says nothing about the code on a machine that others use as well.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


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
