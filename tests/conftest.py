"""What all tests share."""

from __future__ import annotations

import pytest

from testproject import postgres


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Start PostgreSQL when the first test wants the database, and name a database a process."""
    postgres.serve()
