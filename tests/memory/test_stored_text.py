"""What the memory driver answers for JSON is what PostgreSQL answers, to the letter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import DataError
from hypothesis import given, settings, strategies as st

from tests.builders import sql
from ultimate_jobs.drivers.memory.jsonb import jsonb

TEXTS = [
    '{"b": 1, "a": 2, "aa": 3, "ä": 4, "": 5}',
    '{"a": 1, "a": 2}',
    "[1.50, 1e3, 1E-7, -0, -0.0, 12345678901234567890.0001, 1.0]",
    ' [ true ,false,null , "" ] ',
    '"\\u00e4\\ud83d\\ude00\\t\\/\\u007f\\u2028"',
    '{"nested": {"x": [{}, []]}}',
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("aäz😀 ", max_size=3), inner)
    ),
    max_leaves=8,
)


def stored(text: str) -> str:
    """Ask PostgreSQL."""
    ((answer,),) = sql("SELECT (%s::jsonb)::text", [text])
    return str(answer)


@pytest.mark.django_db
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_comes_back_as_from_a_column(text: str) -> None:
    assert jsonb(text) == stored(text)


@pytest.mark.django_db
def test_any_value_comes_back_as_from_a_column() -> None:
    @settings(max_examples=25, database=None)
    @given(st.lists(VALUES, max_size=4))
    def check(value: Any) -> None:
        text = json.dumps(value)
        assert jsonb(text) == stored(text)

    check()


@pytest.mark.parametrize("text", ["", "{", "nul", "NaN", "-Infinity", '"\\u0000"', '"\\ud800"'])
def test_what_a_column_refuses_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        jsonb(text)
