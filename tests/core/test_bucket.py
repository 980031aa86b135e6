"""The arithmetic of a bucket: tables for the edges, properties for every order of takes."""

from __future__ import annotations

import heapq
import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ultimate_jobs.core.bucket import (
    LEAST_WAIT,
    LONGEST_WAIT,
    Bucket,
    Level,
    bucket_of,
    checked_cost,
    refilled,
    retry_after,
    take,
)
from ultimate_jobs.core.durations import Duration
from ultimate_jobs.errors import RateLimitInvalid

TEN_A_SECOND = Bucket(10.0, 10.0)
ONE_A_MINUTE = Bucket(1.0, 1 / 60)


@pytest.mark.parametrize(
    ("limit", "window", "expected"),
    [
        (100, "1m", Bucket(100.0, 100 / 60)),
        (1, 1, Bucket(1.0, 1.0)),
        (2.5, timedelta(seconds=5), Bucket(2.5, 0.5)),
        (1, "1ms", Bucket(1.0, 1_000.0)),
        (1, timedelta(days=3650), Bucket(1.0, 1 / (3650 * 86_400))),
    ],
)
def test_a_bucket_holds_its_limit_and_fills_in_its_window(
    limit: float, window: Duration, expected: Bucket
) -> None:
    assert bucket_of(limit, window) == expected


BAD: list[tuple[Any, Any]] = [
    *[(limit, "1m") for limit in (0, 0.5, -1, math.inf, math.nan, True, "100", None, 10**400)],
    *[(100, window) for window in (0, -1, "soon", math.inf, math.nan, None, True, "11000d")],
    (1e308, timedelta(microseconds=1)),
]


@pytest.mark.parametrize(("limit", "window"), BAD)
def test_numbers_that_make_no_rate_are_refused(limit: Any, window: Any) -> None:
    with pytest.raises(RateLimitInvalid) as refused:
        bucket_of(limit, window)

    assert refused.value.code == "X_RATE_LIMIT_INVALID"


@pytest.mark.parametrize("cost", [0, -1, 10.01, math.inf, math.nan, True, "1", None])
def test_a_cost_that_can_never_be_had_is_refused(cost: Any) -> None:
    with pytest.raises(RateLimitInvalid):
        checked_cost(TEN_A_SECOND, cost)


@pytest.mark.parametrize("cost", [0.1, 1, 10])
def test_a_cost_up_to_the_limit_is_accepted(cost: float) -> None:
    assert checked_cost(TEN_A_SECOND, cost) == cost


def test_a_new_bucket_is_full() -> None:
    level, taken = take(TEN_A_SECOND, None, 10, 5.0, comes_back=False)

    assert taken.granted
    assert level == Level(0.0, 5.0, 5.0)


@pytest.mark.parametrize(
    ("level", "now", "tokens"),
    [
        (Level(0.0, 0.0, 0.0), 0.5, 5.0),
        (Level(4.0, 0.0, 0.0), 0.5, 9.0),
        (Level(9.0, 0.0, 0.0), 0.5, 10.0),
        (Level(4.0, 8.0, 8.0), 7.0, 4.0),
        (Level(50.0, 0.0, 0.0), 0.0, 10.0),
    ],
    ids=["half", "from there", "to the brim", "back in time", "a lowered limit"],
)
def test_it_fills_with_time_up_to_its_capacity(level: Level, now: float, tokens: float) -> None:
    assert refilled(TEN_A_SECOND, level, now).tokens == tokens


def test_a_clock_that_goes_back_gives_nothing_twice() -> None:
    level = Level(0.0, 10.0, 10.0)
    level, _ = take(TEN_A_SECOND, level, 1, 9.0, comes_back=False)

    assert level == Level(0.0, 10.0, 10.0)


def test_a_refusal_takes_nothing() -> None:
    level, taken = take(TEN_A_SECOND, Level(3.0, 0.0, 0.0), 8, 0.0, comes_back=False)

    assert (level.tokens, taken.granted, taken.wait) == (3.0, False, 0.5)


def waits(bucket: Bucket, count: int, *, comes_back: bool, cost: float = 1) -> list[float]:
    """Answer the waits of callers that are refused one after the other at one moment."""
    level: Level | None = Level(0.0, 0.0, 0.0)
    found = []
    for _ in range(count):
        level, taken = take(bucket, level, cost, 0.0, comes_back=comes_back)
        found.append(taken.wait)
    return found


def test_runs_that_are_refused_together_come_back_at_the_pace_of_the_refill() -> None:
    assert waits(ONE_A_MINUTE, 4, comes_back=True) == pytest.approx([60, 120, 180, 240])


def test_a_fast_bucket_gives_its_first_turn_after_the_least_wait() -> None:
    assert waits(TEN_A_SECOND, 4, comes_back=True) == pytest.approx([1.0, 1.1, 1.2, 1.3])


def test_a_turn_is_as_long_as_its_cost() -> None:
    assert waits(TEN_A_SECOND, 3, comes_back=True, cost=10) == pytest.approx([1.0, 2.0, 3.0])


def test_a_caller_that_may_not_come_back_is_given_no_turn() -> None:
    assert waits(ONE_A_MINUTE, 3, comes_back=False) == pytest.approx([60, 60, 60])


def test_turns_end_with_the_day() -> None:
    assert waits(ONE_A_MINUTE, 3_000, comes_back=True)[-1] == LONGEST_WAIT


def test_turns_of_runs_that_never_came_are_over_when_the_bucket_is_full() -> None:
    level = Level(0.0, 0.0, 50_000.0)

    level, _ = take(ONE_A_MINUTE, level, 1, 60.0, comes_back=True)
    _, taken = take(ONE_A_MINUTE, level, 1, 60.0, comes_back=True)

    assert taken.wait == pytest.approx(60)


def test_ten_thousand_that_come_back_at_their_turns_are_all_through_in_the_time_it_takes() -> None:
    level: Level | None = Level(0.0, 0.0, 0.0)
    asked, now = 0, 0.0
    due = [0.0] * 10_000
    through = 0
    while due:
        now = heapq.heappop(due)
        level, taken = take(TEN_A_SECOND, level, 1, now, comes_back=True)
        asked += 1
        if taken.granted:
            through += 1
        else:
            heapq.heappush(due, now + retry_after(taken.wait, 0.0) + 0.001)

    assert through == 10_000
    assert asked <= 2 * 10_000
    assert now <= 1_005


@pytest.mark.parametrize(
    ("wait", "roll", "seconds"),
    [
        (0.0001, 0.5, LEAST_WAIT),
        (1.0001, 0.5, 1.001),
        (90.0, 0.5, 90.0),
        (LONGEST_WAIT - 1, 0.5, LONGEST_WAIT - 1),
        (LONGEST_WAIT, 0.0, LONGEST_WAIT / 2),
        (10 * LONGEST_WAIT, 1.0, LONGEST_WAIT),
    ],
)
def test_what_a_refused_caller_is_told(wait: float, roll: float, seconds: float) -> None:
    assert retry_after(wait, roll) == seconds


# Whatever comes in whatever order

buckets = st.builds(
    bucket_of,
    st.floats(1, 1_000),
    st.floats(0.01, 10_000).map(lambda seconds: timedelta(seconds=seconds)),
)
takes = st.lists(
    st.tuples(st.floats(-5, 60), st.floats(0.01, 1), st.booleans()), min_size=1, max_size=40
)


@given(buckets, takes)
def test_no_interval_sees_more_than_the_capacity_and_its_refill(
    bucket: Bucket, calls: list[tuple[float, float, bool]]
) -> None:
    level, now, granted = None, 0.0, []
    for step, share, comes_back in calls:
        now += step
        cost = share * bucket.capacity
        level, taken = take(bucket, level, cost, now, comes_back=comes_back)
        assert 0 <= level.tokens <= bucket.capacity
        assert level.at >= now
        granted.append((level.at, cost if taken.granted else 0.0))

    for first in range(len(granted)):
        spent = 0.0
        for at, cost in granted[first:]:
            spent += cost
            most = bucket.capacity + bucket.refill_per_second * (at - granted[first][0])
            assert spent <= most * (1 + 1e-9) + 1e-6


@given(buckets, takes)
def test_a_refused_caller_has_to_wait_and_never_past_the_day(
    bucket: Bucket, calls: list[tuple[float, float, bool]]
) -> None:
    level, now = None, 0.0
    for step, share, comes_back in calls:
        now += step
        level, taken = take(bucket, level, share * bucket.capacity, now, comes_back=comes_back)
        assert taken.granted == (taken.wait == 0)
        assert not comes_back or taken.wait <= LONGEST_WAIT
        assert LEAST_WAIT <= retry_after(taken.wait, share) <= LONGEST_WAIT


@given(buckets, st.floats(0.01, 1), st.floats(0, 1))
def test_alone_a_refused_caller_is_granted_when_it_was_told(
    bucket: Bucket, share: float, fill: float
) -> None:
    cost = share * bucket.capacity
    level, taken = take(bucket, Level(fill * cost * 0.99, 0.0, 0.0), cost, 0.0, comes_back=True)

    back = retry_after(taken.wait, 1.0) + 0.001
    _, again = take(bucket, level, cost, back, comes_back=True)

    assert again.granted
