"""The memory driver keeps the contract; it needs no database for it."""

from __future__ import annotations

import pytest

from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.testing.conformance import *  # noqa: F403
from ultimate_jobs.testing.conformance import Clock


@pytest.fixture
def driver(clock: Clock) -> MemoryDriver:
    """Answer a driver that needs no database."""
    return MemoryDriver(None, clock=clock)
