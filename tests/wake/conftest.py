"""Fixtures of this folder."""

from __future__ import annotations

import pytest

from tests.builders import wait_until
from tests.wake.lines import sessions


@pytest.fixture(autouse=True)
def nobody_else_listens(request: pytest.FixtureRequest) -> None:
    """Wait until the server has let go of the sessions of earlier tests."""
    if request.node.get_closest_marker("django_db"):
        request.getfixturevalue("transactional_db")
        wait_until(lambda: not sessions(), what="the sessions of earlier tests to end")
