"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from ultimate_jobs.core.durations import LONGEST, duration


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("3d", timedelta(days=3)),
        ("1h30m", timedelta(minutes=90)),
        ("2w", timedelta(weeks=2)),
        ("1.5h", timedelta(minutes=90)),
        ("1d2h3m4s5ms", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
        (90, timedelta(seconds=90)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(days=1), timedelta(days=1)),
        (LONGEST, LONGEST),
    ],
)
def test_a_duration_is_read(written: object, read: timedelta) -> None:
    assert duration(written) == read


@pytest.mark.parametrize(
    "written",
    [
        "",
        "3",
        "3 d",
        "d3",
        "1h 30m",
        "-1h",
        "1H",
        "1y",
        "1e3s",
        "3d\n",
        "٣d",
        "∞",
        "nan",
        0,
        -1,
        "0s",
        timedelta(0),
        timedelta(seconds=-1),
        float("nan"),
        float("inf"),
        -float("inf"),
        1e300,
        10**400,
        "9" * 400 + "d",
        LONGEST + timedelta(microseconds=1),
        True,
        None,
        b"3d",
        [3],
    ],
    ids=lambda written: repr(written)[:60],
)
def test_what_is_no_duration_is_refused_without_being_quoted(written: object) -> None:
    with pytest.raises(ValueError, match=r"^must ") as caught:
        duration(written)

    if isinstance(written, str) and len(written) > 3:
        assert written not in str(caught.value)


@pytest.mark.parametrize("written", [0, 0.0, "0s", timedelta(0)])
def test_nothing_is_a_duration_only_where_it_may_be(written: object) -> None:
    assert duration(written, zero=True) == timedelta(0)


@pytest.mark.parametrize("written", [-1, timedelta(microseconds=-1), "nothing"])
def test_less_than_nothing_never_is(written: object) -> None:
    with pytest.raises(ValueError, match=r"^must "):
        duration(written, zero=True)


@given(st.text(max_size=20) | st.integers() | st.floats() | st.booleans() | st.none())
def test_anything_else_is_a_duration_in_bounds_or_a_value_error(written: object) -> None:
    try:
        read = duration(written)
    except ValueError:
        return
    assert timedelta(0) < read <= LONGEST
