"""The fixture ``jobs`` of pytest. Without it nothing is imported and nothing happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ultimate_jobs.testing.kit import JobsKit


@pytest.fixture
def jobs(db: None, request: pytest.FixtureRequest) -> Iterator[JobsKit]:
    """Run jobs inside the test: on its connection, in its transaction, by a clock of its own.

    With ``@pytest.mark.django_db(transaction=True)`` the test has no transaction, and the jobs
    commit theirs.
    """
    from ultimate_jobs.testing.kit import jobs_kit  # noqa: PLC0415 - Django must be set up

    with jobs_kit(test_file=str(request.path)) as kit:
        yield kit
