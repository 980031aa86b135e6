"""The geometry of a chart: slots, steps of the count axis, bars, ticks, words."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from ultimate_jobs.admin.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    ORIGIN,
    SCALES,
    TOP,
    WIDTH,
    Chart,
    Slot,
    bar_chart,
    compact,
    count_steps,
    slots_of,
)
from ultimate_jobs.operate.counters import PERIODS, SLOT_ORIGIN, SLOTS

NOON = datetime(2026, 3, 10, 12, 7, 31, tzinfo=UTC)
HOUR = SCALES["1h"]
SERIES = ("retried", "failed", "dead")


def chart(*counts: dict[str, int] | None, series: tuple[str, ...] = SERIES) -> Chart:
    """Draw slots that end at noon."""
    first = NOON.replace(second=0) - timedelta(minutes=len(counts) - 1)
    slots = [Slot(first + timedelta(minutes=place), each) for place, each in enumerate(counts)]
    return bar_chart("failures", "Failures", slots, series, HOUR)


@pytest.mark.parametrize("period", SCALES)
def test_a_chart_has_the_slots_that_the_database_counts(period: str) -> None:
    scale = SCALES[period]

    assert (scale.span, scale.slot, ORIGIN) == (PERIODS[period], SLOTS[period], SLOT_ORIGIN)


@pytest.mark.parametrize(
    ("period", "count", "first", "last"),
    [
        ("1h", 60, (10, 11, 8), (10, 12, 7)),
        ("24h", 48, (9, 12, 30), (10, 12, 0)),
        ("7d", 56, (3, 15, 0), (10, 12, 0)),
        ("30d", 60, (9, 0, 0), (10, 12, 0)),
    ],
)
def test_a_period_ends_with_the_slot_of_now(
    period: str, count: int, first: tuple[int, ...], last: tuple[int, ...]
) -> None:
    slots = slots_of({}, SCALES[period], NOON)

    starts = [(slot.start.day, slot.start.hour, slot.start.minute) for slot in slots]
    assert (len(slots), starts[0], starts[-1]) == (count, first, last)


def test_what_was_counted_is_in_its_slot_and_the_rest_is_a_gap() -> None:
    at = NOON.replace(second=0) - timedelta(minutes=5)

    slots = slots_of({at: {"done": 3}, at - timedelta(days=1): {"done": 9}}, HOUR, NOON)

    assert [slot.start for slot in slots if slot.counts is not None] == [at]


@pytest.mark.parametrize(
    ("most", "steps"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (5, [0, 1, 2, 3, 4, 5]),
        (6, [0, 2, 4, 6]),
        (11, [0, 5, 10, 15]),
        (26, [0, 10, 20, 30]),
        (99, [0, 20, 40, 60, 80, 100]),
        (812, [0, 200, 400, 600, 800, 1_000]),
        (1_000_001, [0, 500_000, 1_000_000, 1_500_000]),
    ],
)
def test_the_count_axis_has_round_steps(most: int, steps: list[int]) -> None:
    assert count_steps(most) == steps


@given(st.integers(min_value=1, max_value=10**12))
def test_the_count_axis_reaches_the_most_and_is_never_crowded(most: int) -> None:
    steps = count_steps(most)

    assert 2 <= len(steps) <= 6
    assert steps[-1] >= most > steps[-2]
    assert {after - before for before, after in itertools.pairwise(steps)} == {steps[1]}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (950, "950"), (1_500, "1.5k"), (20_000, "20k"), (3_000_000, "3M"), (10**10, "10G")],
)
def test_a_count_is_written_short(count: int, text: str) -> None:
    assert compact(count) == text


def test_bars_stand_on_each_other_from_the_bottom() -> None:
    drawn = chart({"retried": 4, "failed": 2, "dead": 4})

    retried, failed, dead = drawn.bars
    assert float(retried.y) + float(retried.height) == BOTTOM
    assert float(failed.y) + float(failed.height) == pytest.approx(float(retried.y), abs=1.01)
    assert float(dead.y) == TOP
    assert {bar.x for bar in drawn.bars} == {retried.x}
    assert retried.title == "12:07: 4 retried"


def test_the_height_of_a_bar_is_its_share_of_the_axis() -> None:
    drawn = chart({"retried": 10}, {"retried": 5})

    heights = [float(bar.height) for bar in drawn.bars]
    assert heights == [BOTTOM - TOP, (BOTTOM - TOP) / 2]


def test_one_failure_among_thousands_is_seen() -> None:
    drawn = chart({"retried": 100_000}, {"dead": 1})

    assert float(drawn.bars[-1].height) == 2
    assert float(drawn.bars[-1].y) + 2 == BOTTOM


def test_a_gap_keeps_its_place_and_has_no_row() -> None:
    drawn = chart({"retried": 1}, None, {"retried": 1})

    first, last = (float(bar.x) for bar in drawn.bars)
    assert last - first == pytest.approx(2 * (WIDTH - LEFT) / 3, abs=0.02)
    assert [row.label for row in drawn.rows] == ["12:07", "12:05"]


def test_the_table_says_what_the_bars_say() -> None:
    drawn = chart({"retried": 1, "dead": 2}, {"failed": 1_204})

    assert [(row.label, row.counts) for row in drawn.rows] == [
        ("12:07", (0, 1_204, 0)),
        ("12:06", (1, 0, 2)),
    ]
    assert [(total.series, total.text) for total in drawn.totals] == [
        ("retried", "1"),
        ("failed", "1,204"),
        ("dead", "2"),
    ]


def test_the_description_says_it_in_words() -> None:
    drawn = chart({"retried": 1, "dead": 2}, {"failed": 1_204})

    assert drawn.description == "Over 1 hour, by minute: 1,207 in all, at most 1,204 from 12:07."


@pytest.mark.parametrize("counts", [(), (None,), ({"retried": 0},)])
def test_nothing_is_drawn_where_nothing_ended(counts: tuple[dict[str, int] | None, ...]) -> None:
    drawn = chart(*counts)

    assert drawn.empty
    assert (drawn.bars, drawn.time_ticks, drawn.count_ticks, drawn.rows) == ((), (), (), ())
    assert drawn.description == "Nothing in the last 1 hour."


@pytest.mark.parametrize(
    ("period", "labels"),
    [
        ("1h", ["11:10", "11:20", "11:30", "11:40", "11:50", "12:00"]),
        ("24h", ["15:00", "18:00", "21:00", "00:00", "03:00", "06:00", "09:00", "12:00"]),
        ("7d", ["Wed 04", "Thu 05", "Fri 06", "Sat 07", "Sun 08", "Mon 09", "Tue 10"]),
    ],
)
def test_ticks_stand_at_round_times(period: str, labels: list[str]) -> None:
    scale = SCALES[period]
    slots = slots_of({NOON.replace(minute=0, second=0): {"done": 1}}, scale, NOON)

    drawn = bar_chart("throughput", "Throughput", slots, ("done",), scale)

    assert [tick.label for tick in drawn.time_ticks] == labels
    assert [tick.odd for tick in drawn.time_ticks[:2]] == [False, True]


def test_ticks_are_round_on_the_clock_of_the_reader() -> None:
    delhi = ZoneInfo("Asia/Kolkata")
    scale = SCALES["24h"]
    slots = slots_of({NOON.replace(minute=0, second=0): {"done": 1}}, scale, NOON)

    drawn = bar_chart(
        "throughput", "Throughput", slots, ("done",), scale, lambda at: at.astimezone(delhi)
    )

    assert drawn.time_ticks[0].label == "21:00"
    assert drawn.rows[0].label == "10 Mar 17:30"


@given(
    st.lists(
        st.none() | st.fixed_dictionaries({name: st.integers(0, 10**9) for name in SERIES}),
        min_size=1,
        max_size=60,
    )
)
def test_nothing_leaves_the_drawing(counts: list[dict[str, int] | None]) -> None:
    drawn = chart(*counts)

    for bar in drawn.bars:
        assert LEFT <= float(bar.x) <= WIDTH - float(bar.width)
        assert float(bar.y) >= 0
        assert float(bar.height) > 0
        assert float(bar.y) + float(bar.height) <= BOTTOM + 0.01
    assert all(0 <= float(tick.at) <= HEIGHT for tick in drawn.count_ticks)
