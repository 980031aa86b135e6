"""Fixtures of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders import Declarations
from tests.worker.running import Gate


@pytest.fixture
def declare() -> Iterator[Declarations]:
    """Declare throwaway jobs; they are forgotten after the test."""
    with Declarations() as declarations:
        yield declarations


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Hold bodies; whoever is still held at the end of the test goes on."""
    gate = Gate()
    yield gate
    gate.open()
