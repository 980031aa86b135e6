"""Steps along the time of a run: each bar is inside the picture, in order, and as long as its step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ultimate_jobs.admin.timeline import spelled, timeline

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).isoformat()


def a_step(status: str, start: float, end: float | None = None, **more: Any) -> dict[str, Any]:
    """Describe a step as ``show_job`` does."""
    return {
        "name": "step",
        "status": status,
        "started_at": at(start),
        "completed_at": None if end is None else at(end),
        "wake_at": None,
        "duration_ms": None if end is None else round((end - start) * 1000),
        **more,
    }


def places(steps: list[dict[str, Any]], until: float) -> list[tuple[float, float]]:
    drawn = timeline(steps, at(until))
    assert drawn is not None
    return [(float(bar.x.rstrip("%")), float(bar.width.rstrip("%"))) for bar in drawn.bars]


def test_bars_stand_where_their_steps_were() -> None:
    steps = [a_step("completed", 0, 2), a_step("failed", 2, 3), a_step("completed", 5, 10)]

    assert places(steps, 10) == [(0, 20), (20, 10), (50, 50)]
    drawn = timeline(steps, at(10))
    assert drawn is not None
    assert drawn.span == "10.0 s"
    assert [bar.took for bar in drawn.bars] == ["2.0 s", "1.0 s", "5.0 s"]


def test_a_step_that_has_not_ended_goes_on_to_the_last_known_instant() -> None:
    assert places([a_step("completed", 0, 5), a_step("started", 5)], 10) == [(0, 50), (50, 50)]


@pytest.mark.parametrize("status", ["sleeping", "waiting"])
def test_a_step_that_waits_goes_on_to_what_it_waits_for(status: str) -> None:
    steps = [a_step("completed", 0, 5), a_step(status, 5, wake_at=at(20))]

    assert places(steps, 6) == [(0, 25), (25, 75)]


def test_there_is_no_picture_of_nothing() -> None:
    assert timeline([], at(0)) is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["completed", "started", "sleeping", "waiting", "failed"]),
            st.floats(0, 1e7),
            st.floats(0, 1e7) | st.none(),
        ),
        min_size=1,
        max_size=20,
    ),
    st.floats(0, 1e7),
)
def test_every_bar_is_inside_the_picture_and_can_be_seen(
    given_steps: list[tuple[str, float, float | None]], until: float
) -> None:
    steps = [
        a_step(status, start, None if length is None else start + length)
        for status, start, length in given_steps
    ]

    for x, width in places(steps, until):
        assert 0 <= x <= 100
        assert width > 0
        assert x + width <= 100.01


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(0), "0 ms"),
        (timedelta(milliseconds=999), "999 ms"),
        (timedelta(seconds=1), "1.0 s"),
        (timedelta(seconds=90), "1.5 min"),
        (timedelta(hours=36), "1.5 d"),
        (timedelta(hours=3), "3.0 h"),
    ],
)
def test_a_span_is_written_in_the_unit_that_suits_it(span: timedelta, words: str) -> None:
    assert spelled(span) == words
