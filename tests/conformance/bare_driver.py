"""A driver that lacks all that a driver may lack is tested on the rest, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

import pytest

from ultimate_jobs.drivers.base import Part
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.memory.steps import MemorySteps
from ultimate_jobs.errors import DriverLacks
from ultimate_jobs.testing.conformance import *  # noqa: F403
from ultimate_jobs.testing.conformance import Clock

T = TypeVar("T")


class NoTransactions(MemorySteps):
    def transact(self, work: Callable[[], T]) -> T:
        raise DriverLacks("The bare driver has no transactions.")


class BareDriver(MemoryDriver):
    name = "bare"
    absent = frozenset(Part)

    def __init__(self, clock: Clock) -> None:
        super().__init__(None, clock=clock)
        self._steps = NoTransactions(self._session)

    def lacks(self) -> NoReturn:
        raise DriverLacks("The bare driver has no such part.")

    def nothing(self) -> None:
        return None

    slots = property(nothing)
    rate_limits = property(nothing)
    schedule = property(lacks)
    events = property(lacks)
    wake = property(lacks)
    retention = property(lacks)
    operator = property(lacks)


@pytest.fixture
def driver(clock: Clock) -> BareDriver:
    """Answer a driver that can enqueue, claim, settle and store steps."""
    return BareDriver(clock)
