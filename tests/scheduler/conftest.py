"""Fixtures of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scheduler.virtual import Clock, Tasks


@pytest.fixture
def declare_task() -> Iterator[Tasks]:
    """Declare throwaway tasks; they are forgotten after the test."""
    tasks = Tasks()
    yield tasks
    tasks.forget()


@pytest.fixture
def clock() -> Clock:
    return Clock()
