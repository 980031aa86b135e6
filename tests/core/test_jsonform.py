"""The stored form of a value: what it becomes, and what has none."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections import OrderedDict, UserDict
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from tests.core.values import json_values
from ultimate_jobs.core.jsonform import (
    MAX_DEPTH,
    MAX_INTEGER_BITS,
    NotStorable,
    canonical,
    dumps,
    loads,
    storable_text,
)

SECRET = "a-secret-value"


@dataclasses.dataclass
class Point:
    x: int
    label: object = "p"


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str


class Tagged(msgspec.Struct, tag="circle"):
    radius: float


class Model(pydantic.BaseModel):
    when: datetime
    price: Decimal


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Size(enum.IntEnum):
    BIG = 3


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Unprintable:
    def __repr__(self) -> str:
        raise AssertionError("nobody may print this")

    __str__ = __repr__


def _deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def _circle() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


FORMS: dict[str, tuple[object, object]] = {
    "nothing": (None, None),
    "a truth": (True, True),
    "a whole number": (10**30, 10**30),
    "a fraction": (0.1, 0.1),
    "minus nothing": (-0.0, 0.0),
    "a large fraction": (1e16, 10_000_000_000_000_000),
    "the largest fraction": (1.7976931348623157e308, int(Decimal("1.7976931348623157e308"))),
    "a small fraction": (5e-324, 5e-324),
    "text": ("é\u2028 \\u0000", "é\u2028 \\u0000"),
    "text of another class": (Loud("plain"), "plain"),
    "a tuple": ((1, (2,)), [1, [2]]),
    "a mapping in another order": ({"bb": 1, "a": 2, "é": 3}, {"a": 2, "bb": 1, "é": 3}),
    "a mapping of another class": (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
    "a wrapped mapping": (UserDict({"a": 1}), {"a": 1}),
    "a decimal": (Decimal("1.10"), "1.10"),
    "a UUID": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "an instant": (
        datetime(2026, 12, 1, 9, 30, 0, 123456, tzinfo=UTC),
        "2026-12-01T09:30:00.123456+00:00",
    ),
    "a naive instant": (datetime(2026, 12, 1, 9, 30), "2026-12-01T09:30:00"),  # noqa: DTZ001
    "a day": (date(2026, 12, 1), "2026-12-01"),
    "a time of day": (time(9, 30), "09:30:00"),
    "a span": (timedelta(hours=1, milliseconds=1), "PT3600.001S"),
    "an enum member": (Colour.RED, "red"),
    "an enum member with a tuple": (Colour.PAIR, [1, 2]),
    "a numbered enum member": (Size.BIG, 3),
    "a dataclass": (Point(1, (Decimal(2),)), {"x": 1, "label": ["2"]}),
    "a struct": (Renamed("Ada"), {"firstName": "Ada"}),
    "a tagged struct": (Tagged(1.5), {"type": "circle", "radius": 1.5}),
    "a model": (
        Model(when=datetime(2026, 1, 1, tzinfo=UTC), price=Decimal("1.10")),
        {"when": "2026-01-01T00:00:00Z", "price": "1.10"},
    ),
}

REFUSED: dict[str, tuple[object, str]] = {
    "nan": ([1, {"a": float("nan")}], "$[1].a"),
    "infinity": (float("inf"), "$"),
    "a decimal nan": ({"a": Decimal("nan")}, "$.a"),
    "a set": ({"a": {1, 2}}, "$.a"),
    "bytes": ([b"x"], "$[0]"),
    "two keys that become one": ({1: "a", "1": "b"}, "$"),
    "a numbered key": ({"a": {7: 1}}, "$.a"),
    "an empty key of nothing": ({None: 1}, "$"),
    "NUL": ({"a": [f"{SECRET}\x00"]}, "$.a[0]"),
    "NUL in a key": ({"a": {f"{SECRET}\x00": 1}}, "a key of $.a"),
    "half a surrogate pair": ("\ud800", "$"),
    "half a pair in a dataclass": (Point(1, "\udfff"), "$.label"),
    "an object": (object(), "$"),
    "an object that cannot be printed": ([Unprintable()], "$[0]"),
    "a class": (Point, "$"),
    "a function": (len, "$"),
    "a generator": ((n for n in range(2)), "$"),
    "a complex number": (1j, "$"),
    "an integer no database reads": (1 << (MAX_INTEGER_BITS + 1), "$"),
    "itself": (_circle(), "$"),
    "too deep": (_deep(MAX_DEPTH + 2), "$"),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_value_has_one_stored_form(name: str) -> None:
    value, stored = FORMS[name]

    found = canonical(value)

    assert repr(found) == repr(_in_order(stored))


@pytest.mark.parametrize("name", FORMS)
def test_the_stored_form_of_a_stored_form_is_itself(name: str) -> None:
    found = canonical(FORMS[name][0])

    assert repr(canonical(found)) == repr(found)
    assert repr(loads(dumps(found))) == repr(found)


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_without_a_stored_form_is_refused_by_its_path(name: str) -> None:
    value, path = REFUSED[name]

    with pytest.raises(NotStorable) as caught:
        canonical(value)

    assert caught.value.path.startswith(path)
    assert SECRET not in str(caught.value)


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(sorted(value.items(), key=lambda i: (len(i[0].encode()), i[0].encode())))
    return value


def test_the_deepest_value_that_is_stored_is_read_again() -> None:
    value = _deep(MAX_DEPTH)

    assert loads(dumps(canonical(value))) == value


def test_a_path_is_cut_to_a_length_that_a_message_bears() -> None:
    value: object = float("nan")
    for _ in range(100):
        value = {"a-long-key-name": value}

    with pytest.raises(NotStorable) as caught:
        canonical(value)

    assert len(str(caught.value)) < 200


def test_a_value_is_not_changed_by_being_stored() -> None:
    value = {"b": (1, 2), "a": [{"d": 1, "c": 2}]}
    before = repr(value)

    canonical(value)

    assert repr(value) == before


@given(json_values)
def test_a_stored_form_is_reached_in_one_step(value: Any) -> None:
    found = canonical(value)

    assert repr(canonical(found)) == repr(found)
    assert repr(loads(dumps(found))) == repr(found)
    assert json.loads(dumps(found)) == found


anything: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=3)
    | st.decimals()
    | st.datetimes()
    | st.timedeltas()
    | st.uuids(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(), max_size=3) | st.integers(), inner, max_size=3)
        | st.frozensets(st.integers(), max_size=2)
    ),
    max_leaves=8,
)


@given(anything)
def test_anything_has_a_stored_form_or_is_refused(value: Any) -> None:
    try:
        found = canonical(value)
    except NotStorable:
        return
    text = dumps(found)
    assert "\\u0000" not in text.replace("\\\\", "")
    text.encode("utf-8")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_its_value(value: float) -> None:
    found = canonical(value)

    assert isinstance(found, int | float)
    assert float(found) == value
    assert isinstance(found, int) == (abs(value) >= 1e16)
    if value == 0:
        assert math.copysign(1, float(str(found))) == 1


# Text for errors and notes


TEXTS: dict[str, Callable[[], str]] = {
    "NUL": lambda: "a\x00b",
    "half a pair": lambda: "a\ud800b",
    "long": lambda: "x" * 1_000,
    "long and hostile": lambda: "\x00\ud800" * 1_000,
    "plain": lambda: "a\nb\tc é \U0001f600",
}


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_becomes_storable(name: str) -> None:
    text = storable_text(TEXTS[name](), 100)

    assert canonical(text) == text


def test_storable_text_is_left_as_it_is() -> None:
    assert storable_text("a\nb é \U0001f600", 100) == "a\nb é \U0001f600"


def test_what_cannot_be_stored_is_escaped_so_that_it_can_be_read() -> None:
    assert storable_text("boom\x00tail", 100) == "boom\\x00tail"
    assert storable_text("boom\ud800tail", 100) == "boom\\ud800tail"


def test_text_that_is_too_long_says_that_it_was_cut() -> None:
    text = storable_text("x" * 1_000, 100)

    assert len(text) == 100
    assert text.endswith("(cut)")


@given(st.text(st.characters(), max_size=300), st.integers(20, 200))
def test_storable_text_always_is_and_is_bounded(text: str, limit: int) -> None:
    found = storable_text(text, limit)

    assert canonical(found) == found
    assert len(found) <= 6 * limit
