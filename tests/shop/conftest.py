"""Fixtures of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from testproject.partners.books import Books
from testproject.partners.server import serving


@pytest.fixture
def partners(tmp_path: Path) -> Iterator[Books]:
    """Have the shop's partners at work, and answer their books."""
    with (
        serving(tmp_path / "partners.jsonl") as (url, books),
        override_settings(SHOP_PARTNERS_URL=url),
    ):
        yield books
