"""Fixtures of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders import Declarations


@pytest.fixture
def declare() -> Iterator[Declarations]:
    """Declare throwaway jobs; they are forgotten after the test."""
    with Declarations() as declarations:
        yield declarations
