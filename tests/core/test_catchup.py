"""What is fired of what was missed, and where the watermark stands afterwards."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given, settings, strategies as st

from ultimate_jobs.core.catchup import CatchUp, Fire, arm, due, is_ahead
from ultimate_jobs.core.cron import Schedule
from ultimate_jobs.core.cronfields import CronFields

EVERY_MINUTE = Schedule.parse("* * * * *", "UTC")
TICK = timedelta(microseconds=1)
KINDS: tuple[CatchUp, ...] = get_args(CatchUp)
every_kind = pytest.mark.parametrize("catch_up", KINDS)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


LONG_AGO = at("2024-11-29T00:00Z")
NOW = at("2026-11-29T00:00:30Z")
LATEST = at("2026-11-29T00:00Z")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """Note every candidate that the calendar is asked for."""
    asked: list[datetime] = []
    for name in ("at_or_after", "at_or_before"):
        real = getattr(CronFields, name)

        def counting(self: CronFields, wall: datetime, real: object = real) -> datetime:
            asked.append(wall)
            assert callable(real)
            found = real(self, wall)
            assert isinstance(found, datetime)
            return found

        monkeypatch.setattr(CronFields, name, counting)
    return asked


# Two years of missed minutes


def test_skip_fires_the_latest_alone(counted: list[datetime]) -> None:
    assert due(EVERY_MINUTE, LONG_AGO, NOW, "skip") == [Fire(LATEST, LATEST)]
    assert len(counted) < 10


def test_run_once_fires_the_earliest_and_moves_past_everything(counted: list[datetime]) -> None:
    assert due(EVERY_MINUTE, LONG_AGO, NOW, "run-once") == [Fire(at("2024-11-29T00:01Z"), LATEST)]
    assert len(counted) < 10


def test_run_all_fires_the_latest_so_many_each_as_itself(counted: list[datetime]) -> None:
    fires = due(EVERY_MINUTE, LONG_AGO, NOW, "run-all")

    assert [fire.occurrence for fire in fires] == [
        LATEST - timedelta(minutes=9 - n) for n in range(10)
    ]
    assert all(fire.watermark == fire.occurrence for fire in fires)
    assert len(counted) < 100


@every_kind
def test_afterwards_nothing_is_due_until_the_next_occurrence(catch_up: CatchUp) -> None:
    watermark = due(EVERY_MINUTE, LONG_AGO, NOW, catch_up)[-1].watermark

    assert due(EVERY_MINUTE, watermark, NOW, catch_up) == []
    assert due(EVERY_MINUTE, watermark, at("2026-11-29T00:00:59.999999Z"), catch_up) == []
    minute = at("2026-11-29T00:01Z")
    assert due(EVERY_MINUTE, watermark, minute, catch_up) == [Fire(minute, minute)]


def test_a_round_that_was_cut_short_goes_on_with_what_it_left() -> None:
    fires = due(EVERY_MINUTE, LONG_AGO, NOW, "run-all", 5)

    assert due(EVERY_MINUTE, fires[1].watermark, NOW, "run-all", 5) == fires[2:]


def test_run_all_fires_fewer_when_fewer_were_missed() -> None:
    fires = due(EVERY_MINUTE, NOW - timedelta(minutes=3), NOW, "run-all", 100)

    assert [fire.occurrence.minute for fire in fires] == [58, 59, 0]


def test_run_all_with_one_is_skip() -> None:
    assert due(EVERY_MINUTE, LONG_AGO, NOW, "run-all", 1) == due(
        EVERY_MINUTE, LONG_AGO, NOW, "skip"
    )


@every_kind
def test_one_missed_occurrence_is_fired_whatever_the_rule(catch_up: CatchUp) -> None:
    daily = Schedule.parse("30 2 * * *", "Europe/Berlin")
    occurrence = at("2026-11-29T01:30Z")

    assert due(daily, at("2026-11-28T12:00Z"), at("2026-11-29T20:00Z"), catch_up) == [
        Fire(occurrence, occurrence)
    ]


# First sight, and a watermark that cannot be


def test_a_task_seen_for_the_first_time_starts_with_its_next_occurrence() -> None:
    schedule = Schedule.parse("*/10 * * * *", "UTC")
    watermark = arm(schedule, at("2026-11-29T09:39:30Z"))

    assert watermark == at("2026-11-29T09:39:59.999999Z")
    for catch_up in KINDS:
        assert due(schedule, watermark, at("2026-11-29T09:39:30Z"), catch_up) == []
        fire = Fire(at("2026-11-29T09:40Z"), at("2026-11-29T09:40Z"))
        assert due(schedule, watermark, at("2026-11-29T09:40Z"), catch_up) == [fire]


def test_a_watermark_ahead_of_the_clock_is_seen() -> None:
    assert is_ahead(EVERY_MINUTE, NOW + timedelta(days=365), NOW)
    assert is_ahead(EVERY_MINUTE, at("2026-11-29T00:01Z"), NOW)
    assert not is_ahead(EVERY_MINUTE, arm(EVERY_MINUTE, NOW), NOW)
    assert not is_ahead(EVERY_MINUTE, LATEST, NOW)
    assert not is_ahead(EVERY_MINUTE, LONG_AGO, NOW)
    assert due(EVERY_MINUTE, NOW + timedelta(days=365), NOW, "run-all") == []


# Any schedule


EXPRESSIONS = ["* * * * *", "*/7 * * * *", "30 2 * * *", "0 */5 * * *", "15,45 1-3 * * sun"]


@settings(max_examples=100, deadline=None)
@given(
    expression=st.sampled_from(EXPRESSIONS),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    minutes=st.integers(0, 3_000),
    catch_up=st.sampled_from(KINDS),
    most=st.integers(1, 20),
)
def test_fires_rise_and_end_at_the_latest_missed(
    expression: str, zone: str, minutes: int, catch_up: CatchUp, most: int
) -> None:
    schedule = Schedule.parse(expression, zone)
    watermark = at("2026-10-24T12:00Z")
    now = watermark + timedelta(minutes=minutes)
    missed = []
    occurrence = schedule.next_after(watermark)
    while occurrence <= now:
        missed.append(occurrence)
        occurrence = schedule.next_after(occurrence)

    fires = due(schedule, watermark, now, catch_up, most)

    expected = {"skip": missed[-1:], "run-once": missed[:1], "run-all": missed[-most:]}
    assert [fire.occurrence for fire in fires] == expected[catch_up]
    assert [fire.watermark for fire in fires][-1:] == missed[-1:]
    assert all(fire.occurrence <= fire.watermark for fire in fires)
