"""When schedules fire: on the calendar, where clocks go back and forward, and at what cost."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from ultimate_jobs.core.cron import Schedule
from ultimate_jobs.core.cronfields import CronFields
from ultimate_jobs.errors import InvariantError

INPUTS = Path(__file__).parent.parent / "cases" / "inputs"
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)


def table(name: str) -> list[dict[str, str]]:
    with (INPUTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def upcoming(schedule: Schedule, start: datetime, count: int) -> list[datetime]:
    found = []
    for _ in range(count):
        start = schedule.next_after(start)
        found.append(start)
    return found


def preceding(schedule: Schedule, until: datetime, after: datetime) -> list[datetime]:
    """Answer every occurrence in ``(after, until]``, found backwards."""
    found: list[datetime] = []
    last = schedule.latest_until(until, after)
    while last is not None:
        found.append(last)
        last = schedule.latest_until(last - TICK, after)
    return found[::-1]


def walls(schedule: Schedule, start: str, count: int) -> list[str]:
    """Answer upcoming occurrences as the zone's clock shows them."""
    tz = ZoneInfo(schedule.zone)
    return [o.astimezone(tz).isoformat()[5:16] for o in upcoming(schedule, at(start), count)]


# The tables


@pytest.mark.parametrize("row", table("cron-expected.csv"), ids=lambda row: row["row"])
def test_a_schedule_fires_as_the_table_says(row: dict[str, str]) -> None:
    schedule = Schedule.parse(row["expr"], row["tz"])
    start = at(row["from_utc_exclusive"])
    expected = [at(text) for text in row["expect_next_utc"].split()]

    assert upcoming(schedule, start, len(expected)) == expected
    assert preceding(schedule, expected[-1], start) == expected


@pytest.mark.parametrize("row", table("cron-refuse.csv"), ids=lambda row: row["expr"] or "empty")
def test_an_expression_that_means_nothing_certain_is_refused(row: dict[str, str]) -> None:
    with pytest.raises(InvariantError) as caught:
        Schedule.parse(row["expr"], "UTC")

    assert caught.value.code == "X_INVARIANT"
    assert "five fields" in caught.value.fix


@pytest.mark.parametrize("row", table("tz-refuse.csv"), ids=lambda row: ascii(row["tz"]) or "empty")
def test_a_zone_that_is_no_place_is_refused(row: dict[str, str]) -> None:
    with pytest.raises(InvariantError) as caught:
        Schedule.parse("0 0 * * *", row["tz"].replace("\\x00", "\0"))

    assert "IANA" in caught.value.fix


# What else is refused, and what is not


@pytest.mark.parametrize(
    "expression",
    [
        None,
        5,
        b"0 0 * * *",
        ["0", "0", "*", "*", "*"],
        "@daily",
        "0 0 * * mon#1",
        "0 0 L * *",
        "0 0 * * 5L",
        "0 0 15W * *",
        "0 0 ? * *",
        "0 0 * * ?",
        "0 22-4 * * *",
        "0 0 * * 5-1",
        "0 0 * dec-jan *",
        "5-5/1 * * * *",
        "50/15 * * * *",
        "1-5/5 * * * *",
        "0 */24 * * *",
        "0 0 */31 * *",
        "0 0 * */12 *",
        "0 0 * * */7",
        "*/-1 * * * *",
        "*/1.5 * * * *",
        "1.5 * * * *",
        "+1 * * * *",
        "000 * * * *",
        "1, * * * *",
        ",1 * * * *",
        "1-2-3 * * * *",
        "1/2/3 * * * *",
        "*-5 * * * *",
        "** * * * *",
        "*5 * * * *",
        "mon * * * *",
        "0 0 * mon *",
        "0 0 * * jan",
        "0 0 * january *",
        "0 0 * * mond",
        "0 0 31 feb,apr *",
        "0 0 30-31 2 *",
        "0\u00a00 * * *",
        "0 0 *\n* *",
        "0 0 * * *\n",
        "0 0 * * *;",
        "\uff10 0 * * *",
    ],
)
def test_other_dialects_and_slips_are_refused(expression: Any) -> None:
    with pytest.raises(InvariantError):
        Schedule.parse(expression, "UTC")


@pytest.mark.parametrize(
    "zone", [None, 7, "utc", "europe/berlin", "Factory", "+02:00", "CEST", " UTC"]
)
def test_a_zone_has_one_spelling(zone: Any) -> None:
    with pytest.raises(InvariantError):
        Schedule.parse("0 0 * * *", zone)


def test_a_refusal_does_not_repeat_what_it_refuses() -> None:
    with pytest.raises(InvariantError) as caught:
        Schedule.parse("hunter2 * * * *", "UTC")

    assert "hunter2" not in str(caught.value)
    assert "minute" in caught.value.cause


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("*/45 * * * *", "0,45 * * * *"),
        ("0 0 * * MON-Fri", "0 0 * * 1-5"),
        ("0 0 * * fri-sun", "0 0 * * 0,5,6"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * sun-tue", "0 0 * * 0,1,2"),
        ("0 0 * * 0-7", "0 0 * * *"),
        ("0 0 * * mon/2", "0 0 * * 1,3,5"),
        ("0 0 * Jan,JUL *", "0 0 * 1,7 *"),
        ("0 0 8-8 * *", "0 0 8 * *"),
        ("0 0 1-31 * mon", "0 0 * * 1"),
        ("*,5 08 * * *", "0-59 8 * * *"),
        ("10-20/5,3,3 * * * *", "3,10,15,20 * * * *"),
        ("  0\t0   * * *  ", "0 0 * * *"),
    ],
)
def test_spellings_of_one_schedule(written: str, meant: str) -> None:
    start = at("2026-12-01T00:00Z")

    assert upcoming(Schedule.parse(written, "UTC"), start, 70) == upcoming(
        Schedule.parse(meant, "UTC"), start, 70
    )


def test_a_schedule_is_a_value() -> None:
    schedule = Schedule.parse(" 0  0 * * * ", "UTC")

    assert schedule == Schedule.parse("0 0 * * *", "UTC")
    assert hash(schedule) == hash(Schedule.parse("0 0 * * *", "UTC"))
    assert schedule != Schedule.parse("0 0 * * *", "Etc/UTC")
    assert repr(schedule) == "Schedule(expression='0 0 * * *', zone='UTC')"


# The calendar


def days(expression: str, start: str, count: int) -> list[str]:
    found = upcoming(Schedule.parse(expression, "UTC"), at(start), count)
    return [o.date().isoformat() for o in found]


def test_when_both_day_fields_restrict_either_is_enough() -> None:
    assert days("0 0 13 * fri", "2026-12-01T00:00Z", 5) == [
        "2026-12-04",
        "2026-12-11",
        "2026-12-13",
        "2026-12-18",
        "2026-12-25",
    ]
    assert days("0 0 30 2 mon", "2026-02-20T00:00Z", 2) == ["2026-02-23", "2027-02-01"]


def test_a_day_field_that_names_every_day_restricts_nothing() -> None:
    assert days("0 0 * * fri", "2026-12-01T00:00Z", 2) == ["2026-12-04", "2026-12-11"]
    assert days("0 0 13 * 0-6", "2026-12-01T00:00Z", 2) == ["2026-12-13", "2027-01-13"]


def test_a_stepped_day_field_restricts() -> None:
    assert days("0 0 */15 * mon", "2026-12-01T00:00Z", 4) == [
        "2026-12-07",
        "2026-12-14",
        "2026-12-16",
        "2026-12-21",
    ]


def test_months_are_passed_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = count_calls(monkeypatch, CronFields, "_is_day")

    assert days("0 9 29 2 *", "2096-03-01T00:00Z", 1) == ["2104-02-29"]
    assert len(looked_at) < 400


def test_a_question_with_seconds_is_answered_with_the_next_minute() -> None:
    for expression in ("30 2 * * *", "30 * * * *"):
        schedule = Schedule.parse(expression, "UTC")
        assert schedule.next_after(at("2026-12-01T02:29:59.999999Z")) == at("2026-12-01T02:30Z")
        assert schedule.next_after(at("2026-12-01T02:29:00.000001Z")) == at("2026-12-01T02:30Z")


def test_the_instant_asked_about_may_be_in_any_zone_but_must_have_one() -> None:
    schedule = Schedule.parse("0 12 * * *", "Europe/Berlin")
    asked = at("2026-12-01T12:00+01:00")

    assert schedule.next_after(asked) == at("2026-12-02T11:00Z")
    assert schedule.next_after(asked).tzinfo is UTC
    assert schedule.latest_until(asked, asked - HOUR) == asked
    for naive in (datetime(2026, 12, 1), date(2026, 12, 1), None):  # noqa: DTZ001
        with pytest.raises(InvariantError):
            schedule.next_after(naive)  # type: ignore[arg-type]
        with pytest.raises(InvariantError):
            schedule.latest_until(asked, naive)  # type: ignore[arg-type]


def test_the_latest_occurrence_lies_after_the_floor_and_not_after_the_end() -> None:
    for expression in ("0 12 * * *", "0 */12 * * *"):
        schedule = Schedule.parse(expression, "UTC")
        noon, before = at("2026-12-01T12:00Z"), at("2026-12-01T11:00Z")
        assert schedule.latest_until(noon, before) == noon
        assert schedule.latest_until(noon - TICK, before) is None
        assert schedule.latest_until(noon, noon) is None
        assert schedule.latest_until(noon + HOUR, noon) is None
        assert schedule.latest_until(before, noon + HOUR) is None


@pytest.mark.parametrize("expression", ["0 0 29 2 *", "* * 29 2 *", "0 0 1 1 *"])
def test_the_ends_of_the_calendar_are_told(expression: str) -> None:
    schedule = Schedule.parse(expression, "UTC")
    with pytest.raises(InvariantError, match="10000"):
        schedule.next_after(at("9999-12-30T00:00Z"))
    first, second = at("0001-01-01T00:00:30Z"), at("0001-01-10T00:00:00Z")
    if expression == "0 0 1 1 *":
        assert schedule.latest_until(second, at("0001-01-01T00:00:00Z")) is None
    else:
        assert schedule.latest_until(second, first) is None


# Where the clock goes back


def test_a_listed_hour_that_is_repeated_fires_in_its_first_pass() -> None:
    every_minute = Schedule.parse("* 2 * * *", "Europe/Berlin")
    start = at("2026-10-24T22:00Z")

    found = upcoming(every_minute, start, 61)

    assert found[0] == at("2026-10-25T00:00Z")
    assert found[59] == at("2026-10-25T00:59Z")
    assert found[60] == at("2026-10-26T01:00Z")
    second_pass = at("2026-10-25T01:30Z")
    assert every_minute.next_after(second_pass) == at("2026-10-26T01:00Z")
    assert every_minute.latest_until(second_pass, start) == at("2026-10-25T00:59Z")


def test_a_stepped_hour_that_is_repeated_fires_in_both_passes() -> None:
    assert walls(Schedule.parse("30 */2 * * *", "Europe/Berlin"), "2026-10-24T22:00Z", 4) == [
        "10-25T00:30",
        "10-25T02:30",
        "10-25T02:30",
        "10-25T04:30",
    ]


def test_all_hours_are_a_cadence_however_they_are_written() -> None:
    start = at("2026-10-24T22:00Z")
    hourly = upcoming(Schedule.parse("0 * * * *", "Europe/Berlin"), start, 6)

    assert {later - earlier for earlier, later in pairwise(hourly)} == {HOUR}
    for hours in ("0-23", "*/1", "0-11,12-23"):
        schedule = Schedule.parse(f"0 {hours} * * *", "Europe/Berlin")
        assert upcoming(schedule, start, 6) == hourly


# Where the clock goes forward


def test_a_listed_time_in_the_gap_fires_when_the_gap_ends_and_once() -> None:
    end_of_gap = at("2027-03-28T01:00Z")
    for expression in ("30 2 * * *", "0,30 2 * * *", "* 2 * * *", "15 2,3 * * *", "0 2,3 * * *"):
        schedule = Schedule.parse(expression, "Europe/Berlin")
        found = [o for o in upcoming(schedule, at("2027-03-27T12:00Z"), 5) if o <= end_of_gap]
        assert found == [end_of_gap]
        assert schedule.latest_until(end_of_gap + TICK, end_of_gap - TICK) == end_of_gap


def test_a_stepped_hour_in_the_gap_is_left_out() -> None:
    assert walls(Schedule.parse("30 */2 * * *", "Europe/Berlin"), "2027-03-27T23:00Z", 3) == [
        "03-28T00:30",
        "03-28T04:30",
        "03-28T06:30",
    ]


def test_the_day_of_a_time_in_the_gap_is_the_day_it_would_have_had() -> None:
    # In Beirut the gap begins at midnight: 00:00 on that Sunday does not exist, 01:00 does.
    sundays = Schedule.parse("0 0 * * sun", "Asia/Beirut")

    assert walls(sundays, "2027-03-26T00:00Z", 2) == ["03-28T01:00", "04-04T00:00"]


# Unusual zones


def test_lord_howe_moves_by_half_an_hour() -> None:
    back = Schedule.parse("45 1 * * *", "Australia/Lord_Howe")
    assert upcoming(back, at("2027-04-03T00:00Z"), 2) == [
        at("2027-04-03T14:45Z"),
        at("2027-04-04T15:15Z"),
    ]
    forward = Schedule.parse("15 2 * * *", "Australia/Lord_Howe")
    assert walls(forward, "2027-10-02T00:00Z", 2) == ["10-03T02:30", "10-04T02:15"]
    quarters = upcoming(
        Schedule.parse("*/15 * * * *", "Australia/Lord_Howe"), at("2027-04-03T14:00Z"), 8
    )
    assert {b - a for a, b in pairwise(quarters)} == {15 * MINUTE}


def test_a_day_that_a_place_never_had_fires_when_the_next_one_begins() -> None:
    # Samoa went from 29 to 31 December 2011.
    daily = Schedule.parse("0 9 * * *", "Pacific/Apia")
    assert walls(daily, "2011-12-29T00:00Z", 4) == [
        "12-29T09:00",
        "12-31T00:00",
        "12-31T09:00",
        "01-01T09:00",
    ]


def test_a_day_that_a_place_had_twice_has_each_time_once() -> None:
    # Kwajalein's clocks went back by 23 hours in 1969.
    schedule = Schedule.parse("0 9 * * *", "Pacific/Kwajalein")
    found = upcoming(schedule, at("1969-09-28T12:00Z"), 4)

    assert len({o.astimezone(ZoneInfo(schedule.zone)).date() for o in found}) == 4


# Asked at every minute around a change


CHANGES = {
    "America/New_York": ["2026-11-01T06:00Z", "2027-03-14T07:00Z"],
    "America/Chicago": ["2026-11-01T07:00Z", "2027-03-14T08:00Z"],
    "Europe/Berlin": ["2026-10-25T01:00Z", "2027-03-28T01:00Z"],
    "Europe/Prague": ["2026-10-25T01:00Z", "2027-03-28T01:00Z"],
    "Australia/Lord_Howe": ["2027-04-03T15:00Z", "2027-10-02T15:30Z"],
}


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize(
    "expression", ["30 2 * * *", "0 3 * * *", "0 0 * * *", "0 12 * * 0", "*/5 * * * *"]
)
def test_every_question_before_an_occurrence_names_it(expression: str, zone: str) -> None:
    schedule = Schedule.parse(expression, zone)
    for change in CHANGES[zone]:
        asked = at(change) - 12 * HOUR
        upcoming_one = schedule.next_after(asked)
        while asked < at(change) + 12 * HOUR:
            if asked >= upcoming_one:
                upcoming_one = schedule.next_after(asked)
            assert asked < upcoming_one == schedule.next_after(asked)
            latest = schedule.latest_until(asked, at(change) - 30 * HOUR)
            assert latest is None or (latest <= asked and schedule.next_after(latest) > asked)
            asked += MINUTE


# Against a walk over every minute


def _numbers(first: int, last: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """Write a field, and say which values it names."""
    value = st.integers(first, last)
    ranges = st.tuples(value, value).map(sorted)
    stepped = st.tuples(st.integers(first, last - 1), st.integers(1, last)).filter(
        lambda pair: pair[0] + pair[1] <= last
    )
    everything = frozenset(range(first, last + 1))
    return st.one_of(
        st.just(("*", everything)),
        value.map(lambda v: (str(v), frozenset({v}))),
        st.sets(value, min_size=1, max_size=4).map(
            lambda found: (",".join(map(str, found)), frozenset(found))
        ),
        ranges.map(lambda ends: (f"{ends[0]}-{ends[1]}", frozenset(range(ends[0], ends[1] + 1)))),
        stepped.map(
            lambda pair: (f"{pair[0]}/{pair[1]}", frozenset(range(pair[0], last + 1, pair[1])))
        ),
        st.integers(1, last - first).map(
            lambda step: (f"*/{step}", frozenset(range(first, last + 1, step)))
        ),
    )


FIELDS = st.tuples(
    _numbers(0, 59), _numbers(0, 23), _numbers(1, 31), _numbers(1, 12), _numbers(0, 6)
)
ZONES = [
    *CHANGES,
    "UTC",
    "Asia/Kathmandu",
    "Asia/Beirut",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Asia/Gaza",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Antarctica/Troll",
]


def _changes_of(zone: str) -> Iterator[datetime]:
    tz = ZoneInfo(zone)
    day = at("2005-01-01T00:00Z")
    while day.year < 2033:
        if (day + 24 * HOUR).astimezone(tz).utcoffset() != day.astimezone(tz).utcoffset():
            yield day
        day += 24 * HOUR


STARTS = [(zone, day) for zone in ZONES for day in [*_changes_of(zone), at("2028-02-28T00:00Z")]]


def walked(
    expression: tuple[tuple[str, frozenset[int]], ...], zone: str, start: datetime, end: datetime
) -> list[datetime]:
    """Answer the occurrences in ``(start, end]``, by looking at the clock every minute."""
    (_, minutes), (hour_text, hours), (_, days), (_, months), (_, weekdays) = expression
    either = len(days) < 31 and len(weekdays) < 7
    cadence = "/" in hour_text or len(hours) == 24

    def matches(wall: datetime) -> bool:
        by_day, by_week = wall.day in days, (wall.weekday() + 1) % 7 in weekdays
        is_day = (by_day or by_week) if either else (by_day and by_week)
        return wall.minute in minutes and wall.hour in hours and wall.month in months and is_day

    tz = ZoneInfo(zone)
    instant = start - 30 * HOUR
    highest = instant.astimezone(tz).replace(tzinfo=None)
    found = []
    while instant < end:
        instant += MINUTE
        wall = instant.astimezone(tz).replace(tzinfo=None)
        fires = matches(wall) if cadence else False
        while not cadence and highest < wall:
            highest += MINUTE
            fires = fires or matches(highest)
        if fires and instant > start:
            found.append(instant)
    return found


@settings(max_examples=150, deadline=None)
@given(fields=FIELDS, place=st.sampled_from(STARTS), offset=st.integers(-1_500, 1_500))
def test_the_occurrences_are_those_of_a_walk_over_every_minute(
    fields: tuple[tuple[str, frozenset[int]], ...], place: tuple[str, datetime], offset: int
) -> None:
    zone, day = place
    expression = " ".join(text for text, _ in fields)
    try:
        schedule = Schedule.parse(expression, zone)
    except InvariantError:
        days, months, weekdays = (named for _, named in fields[2:])
        longest = max(29 if m == 2 else 30 if m in {4, 6, 9, 11} else 31 for m in months)
        assert len(weekdays) == 7
        assert min(days) > longest
        return
    start = day + offset * MINUTE
    end = start + 60 * HOUR

    expected = walked(fields, zone, start, end)

    found = []
    instant = schedule.next_after(start)
    while instant <= end:
        found.append(instant)
        instant = schedule.next_after(instant)
    assert found == expected
    assert preceding(schedule, end, start) == expected


# The cost


def count_calls(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> list[tuple[object, ...]]:
    calls: list[tuple[object, ...]] = []
    real: Callable[..., Any] = getattr(owner, name)

    def counted(*args: Any) -> Any:
        calls.append(args)
        return real(*args)

    monkeypatch.setattr(owner, name, counted)
    return calls


@pytest.mark.parametrize("expression", ["* * * * *", "* 1-22 * * *", "*/5 * * * *", "0 2 * * *"])
def test_looking_back_costs_the_same_after_a_day_and_after_twenty_years(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = Schedule.parse(expression, "Europe/Berlin")
    candidates = count_calls(monkeypatch, CronFields, "at_or_before")
    now = at("2026-11-29T00:00:30Z")

    for since in (now - 24 * HOUR, now - 20 * 365 * 24 * HOUR):
        candidates.clear()
        assert schedule.latest_until(now, since) is not None
        assert len(candidates) == 1


def test_a_rare_schedule_is_not_walked_day_by_day(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = Schedule.parse("*/5 * 29 2 *", "Europe/Berlin")
    stretches = count_calls(monkeypatch, Schedule, "_change")

    assert schedule.next_after(at("2096-03-01T00:00Z")) == at("2104-02-28T23:00Z")
    assert len(stretches) <= 3
    stretches.clear()
    assert schedule.latest_until(at("2104-02-01T00:00Z"), at("2000-01-01T00:00Z")) == at(
        "2096-02-29T22:55Z"
    )
    assert len(stretches) <= 3
