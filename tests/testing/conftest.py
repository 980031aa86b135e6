"""The fixture of the kit, as the plugin gives it to a project."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders import Declarations
from ultimate_jobs.testing.plugin import jobs

__all__ = ["jobs"]


@pytest.fixture
def declare() -> Iterator[Declarations]:
    with Declarations() as found:
        yield found
