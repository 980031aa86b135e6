"""Fixtures of this folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.builders import Declarations, wait_until
from tests.wake.lines import sessions
from tests.worker.running import Events, Gate


@pytest.fixture
def declare() -> Iterator[Declarations]:
    """Declare throwaway jobs; they are forgotten after the test."""
    with Declarations() as declarations:
        yield declarations


@pytest.fixture(autouse=True)
def nobody_else_listens(request: pytest.FixtureRequest) -> None:
    """Wait until the server has let go of the sessions of earlier tests."""
    if request.node.get_closest_marker("django_db"):
        request.getfixturevalue("transactional_db")
        wait_until(lambda: not sessions(), what="the sessions of earlier tests to end")


@pytest.fixture
def events() -> Iterator[Events]:
    """Collect what is logged during the test."""
    handler = Events()
    logger = logging.getLogger("ultimate_jobs")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Hold bodies; whoever is still held at the end of the test goes on."""
    gate = Gate()
    yield gate
    gate.open()
