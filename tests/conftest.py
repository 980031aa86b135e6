"""What all tests share."""

from __future__ import annotations

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
