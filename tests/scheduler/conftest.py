"""Fixtures of this folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.scheduler.virtual import Clock, Tasks
from tests.worker.running import Events


@pytest.fixture
def declare_task() -> Iterator[Tasks]:
    """Declare throwaway tasks; they are forgotten after the test."""
    tasks = Tasks()
    yield tasks
    tasks.forget()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def events() -> Iterator[Events]:
    """Collect what is logged during the test."""
    handler = Events()
    logger = logging.getLogger("ultimate_jobs")
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(before)
    logger.removeHandler(handler)
