"""Settings: every mistake is found, all at once, in words, and no value is quoted."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings
from pytest_django import Settings as DjangoSettings

from ultimate_jobs import conf
from ultimate_jobs.conf import Settings, get_settings
from ultimate_jobs.core.limiter import NO_LIMITS, Limits
from ultimate_jobs.errors import ConfigInvalid

SPANS = [
    "VISIBILITY_TIMEOUT",
    "HEARTBEAT_INTERVAL",
    "POLL_INTERVAL",
    "IDLE_POLL_MAX",
    "IDLE_POLL_MAX_WAKE",
    "RELAY_INTERVAL",
    "DRAIN_TIMEOUT",
]
NUMBERS = {
    "CONCURRENCY": (1, 1_000),
    "RELAY_BATCH_SIZE": (1, 10_000),
    "MAX_INPUT_BYTES": (1_024, 67_108_864),
}
BOUNDS = [(key, limit) for key, limits in NUMBERS.items() for limit in limits]


def accepted(key: str, value: object) -> Any:
    found, mistakes = conf.read({key: value})
    assert not mistakes
    return getattr(found, key.lower())


def the_mistake(key: str, value: object) -> str:
    """Answer the one mistake in a setting of one key."""
    _, (mistake,) = conf.read({key: value})
    assert mistake.startswith(f"ULTIMATE_JOBS['{key}'] ")
    return mistake


# Good values


def test_nothing_declared_is_the_defaults() -> None:
    assert conf.read({}) == (Settings(), [])


def test_a_project_without_the_setting_has_the_defaults(settings: DjangoSettings) -> None:
    del settings.ULTIMATE_JOBS

    assert get_settings() == Settings()


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_the_outbox_has_two_modes(mode: str) -> None:
    assert accepted("OUTBOX", mode) == mode


def test_a_database_is_an_alias_of_the_project() -> None:
    assert accepted("DATABASE", "default") == "default"


def test_the_wake_can_be_turned_off_and_have_a_database_of_its_own() -> None:
    assert accepted("WAKE", False) is False
    assert accepted("WAKE_DATABASE", "default") == "default"
    assert accepted("WAKE_DATABASE", None) is None


@pytest.mark.parametrize("declared", [["mail", "default", "mail"], ("mail", "default")])
def test_queues_are_kept_in_order_and_named_once(declared: object) -> None:
    assert accepted("QUEUES", declared) == ("mail", "default")


@pytest.mark.parametrize("declared", [{"mail"}, frozenset({"mail"})])
def test_queues_may_be_a_set(declared: object) -> None:
    assert accepted("QUEUES", declared) == ("mail",)


@pytest.mark.parametrize(("key", "limit"), BOUNDS)
def test_a_number_may_be_at_either_limit(key: str, limit: int) -> None:
    assert accepted(key, limit) == limit


@pytest.mark.parametrize("key", SPANS)
@pytest.mark.parametrize(
    ("declared", "seconds"),
    [("250ms", 0.25), ("9s", 9), (9, 9), (2.5, 2.5), (timedelta(seconds=9), 9)],
)
def test_a_span_may_be_written_in_any_way(key: str, declared: object, seconds: float) -> None:
    assert accepted(key, declared) == timedelta(seconds=seconds)


def test_the_longest_span_is_ten_years() -> None:
    assert accepted("DRAIN_TIMEOUT", "3650d") == timedelta(days=3650)


@pytest.mark.parametrize(
    ("declared", "limits"),
    [
        ({}, NO_LIMITS),
        ({"per_tenant": 5}, Limits(per_tenant=5)),
        ({"per_queue": 0, "overall": 50}, Limits(per_queue=0, overall=50)),
        ({"rate_per_tenant": "100/1m"}, Limits(rate_per_tenant=(100, "1m"))),
        ({"rate_per_tenant": (0, "1h30m")}, Limits(rate_per_tenant=(0, "1h30m"))),
        ({"per_tenant": None, "rate_per_tenant": None}, NO_LIMITS),
    ],
)
def test_limits_are_caps_by_name(declared: object, limits: Limits) -> None:
    assert accepted("LIMITS", declared) == limits


def test_signs_of_life_are_a_third_of_the_lease_apart_unless_declared() -> None:
    assert Settings(visibility_timeout=timedelta(seconds=9)).beat_every == timedelta(seconds=3)
    declared, mistakes = conf.read({"VISIBILITY_TIMEOUT": "9s", "HEARTBEAT_INTERVAL": "8s"})

    assert not mistakes
    assert declared.beat_every == timedelta(seconds=8)
    assert accepted("HEARTBEAT_INTERVAL", None) is None


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings().concurrency = 9  # type: ignore[misc]


# Mistakes


@pytest.mark.parametrize("value", ["nowhere", "", None, 1, ["default"], {"default": 1}])
def test_a_database_that_the_project_has_not_is_refused(value: object) -> None:
    assert "names no entry of DATABASES" in the_mistake("DATABASE", value)


@pytest.mark.parametrize("value", ["nowhere", "", 1, True])
def test_a_wake_database_that_the_project_has_not_is_refused(value: object) -> None:
    assert "names no entry of DATABASES" in the_mistake("WAKE_DATABASE", value)


@pytest.mark.parametrize("value", ["yes", 1, 0, None])
def test_a_wake_that_is_neither_on_nor_off_is_refused(value: object) -> None:
    assert "must be True or False." in the_mistake("WAKE", value)


@pytest.mark.parametrize("value", ["never", "AUTO", "", None, True, ["auto"]])
def test_an_outbox_mode_that_is_none_is_refused(value: object) -> None:
    assert "'auto' or 'required'" in the_mistake("OUTBOX", value)


@pytest.mark.parametrize("value", ["default", b"mail", None, 1, {"default": 1}])
def test_queues_that_are_no_list_are_refused(value: object) -> None:
    assert "must be a list of queue names" in the_mistake("QUEUES", value)


@pytest.mark.parametrize("value", [None, 5, "100/1m", [("per_tenant", 5)]])
def test_limits_that_are_no_dict_are_refused(value: object) -> None:
    assert "must be a dict of caps" in the_mistake("LIMITS", value)


@pytest.mark.parametrize("cap", [-1, 1.5, float("inf"), float("nan"), True, "5", 10**9])
def test_a_cap_that_cannot_be_meant_is_refused(cap: object) -> None:
    assert "per_tenant must be a whole number" in the_mistake("LIMITS", {"per_tenant": cap})


@pytest.mark.parametrize("rate", ["", "9", "/1m", "9/", "-1/1m", "1.5/1m", "1/1m/1m", 100, ()])
def test_a_rate_that_cannot_be_read_is_refused(rate: object) -> None:
    assert "rate_per_tenant" in the_mistake("LIMITS", {"rate_per_tenant": rate})


def test_every_mistake_in_the_limits_is_named_at_once() -> None:
    mistake = the_mistake("LIMITS", {"per_tenat": 1, "overall": -1, "rate_per_tenant": "x/soon"})

    for words in ("unknown key 'per_tenat'", "overall must", "limit must", "window must"):
        assert words in mistake


def test_no_queue_at_all_is_refused() -> None:
    assert "at least one queue" in the_mistake("QUEUES", [])


@pytest.mark.parametrize("name", ["", "q" * 201, 1, None, "a\x00b", "\ud800"])
def test_a_queue_name_that_cannot_be_stored_is_refused(name: object) -> None:
    assert "a queue name" in the_mistake("QUEUES", ["default", name])


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", [0, -1, 1.0, float("nan"), float("inf"), "8", True, None])
def test_a_number_that_is_no_whole_one_in_its_limits_is_refused(key: str, value: object) -> None:
    least, most = NUMBERS[key]

    assert f"a whole number from {least:,} to {most:,}." in the_mistake(key, value)


@pytest.mark.parametrize("key", NUMBERS)
def test_a_number_past_either_limit_is_refused(key: str) -> None:
    least, most = NUMBERS[key]

    assert "whole number" in the_mistake(key, least - 1)
    assert "whole number" in the_mistake(key, most + 1)


@pytest.mark.parametrize("key", SPANS)
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (0, "longer than zero"),
        (-1, "longer than zero"),
        (timedelta(seconds=-1), "longer than zero"),
        ("0s", "longer than zero"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (10**400, "ten years"),
        ("3651d", "ten years"),
        ("soon", "must read like"),
        ("1 h", "must read like"),
        ("", "must read like"),
        (True, "timedelta, seconds, or text"),
        ([30], "timedelta, seconds, or text"),
    ],
)
def test_a_span_that_cannot_be_meant_is_refused(key: str, value: object, why: str) -> None:
    assert why in the_mistake(key, value)


@pytest.mark.parametrize("key", [key for key in SPANS if key != "HEARTBEAT_INTERVAL"])
def test_only_the_time_between_signs_of_life_may_be_left_to_the_package(key: str) -> None:
    assert "timedelta, seconds, or text" in the_mistake(key, None)


@pytest.mark.parametrize(
    "declared",
    [
        {"HEARTBEAT_INTERVAL": "30s"},
        {"VISIBILITY_TIMEOUT": "5s", "HEARTBEAT_INTERVAL": "5s"},
        {"VISIBILITY_TIMEOUT": "5s", "HEARTBEAT_INTERVAL": "6s"},
    ],
)
def test_a_sign_of_life_as_long_as_the_lease_is_refused(declared: dict[str, str]) -> None:
    _, mistakes = conf.read(declared)

    assert mistakes == [
        "ULTIMATE_JOBS['HEARTBEAT_INTERVAL'] must be shorter than VISIBILITY_TIMEOUT."
    ]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("CONCURENCY", "CONCURRENCY"),
        ("QUEUE", "QUEUES"),
        ("VISIBILITY_TIMEOUT_MS", "VISIBILITY_TIMEOUT"),
    ],
)
def test_a_key_that_is_nearly_one_is_refused_with_a_suggestion(key: str, meant: str) -> None:
    _, mistakes = conf.read({key: 1})

    assert mistakes == [f"ULTIMATE_JOBS has an unknown key '{key}'; did you mean '{meant}'?"]


@pytest.mark.parametrize("key", ["REDIS_URL", 7, None])
def test_a_key_that_is_like_none_is_refused_without_one(key: Any) -> None:
    _, mistakes = conf.read({key: 1})

    assert mistakes == [f"ULTIMATE_JOBS has an unknown key '{key}'"]


def test_all_mistakes_are_listed_at_once_and_no_value_is_quoted(settings: DjangoSettings) -> None:
    settings.ULTIMATE_JOBS = {
        "DATABASE": "hunter2",
        "OUTBOX": "hunter2",
        "QUEUES": "hunter2",
        "CONCURRENCY": "hunter2",
        "POLL_INTERVAL": "hunter2",
        "PASSWORD": "hunter2",
    }

    with pytest.raises(ConfigInvalid) as caught:
        get_settings()

    assert caught.value.code == "X_CONFIG_INVALID"
    for key in ("DATABASE", "OUTBOX", "QUEUES", "CONCURRENCY", "POLL_INTERVAL", "PASSWORD"):
        assert f"'{key}'" in caught.value.cause
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("declared", [None, "default", [("CONCURRENCY", 4)], 8])
def test_a_setting_that_is_no_dict_is_refused(settings: DjangoSettings, declared: object) -> None:
    settings.ULTIMATE_JOBS = declared

    with pytest.raises(ConfigInvalid) as caught:
        get_settings()
    assert caught.value.cause == "ULTIMATE_JOBS must be a dict."
    assert [message.msg for message in run_checks(tags=["ultimate_jobs"])] == [caught.value.cause]


# In force


def test_the_settings_in_force_are_read_once() -> None:
    assert get_settings() is get_settings()


def test_an_override_is_in_force_inside_its_block_only() -> None:
    before = get_settings()
    with override_settings(ULTIMATE_JOBS={"CONCURRENCY": 3}):
        assert get_settings().concurrency == 3
        with override_settings(ULTIMATE_JOBS={"CONCURRENCY": 4}):
            assert get_settings().concurrency == 4
        assert get_settings().concurrency == 3

    assert get_settings() == before


def test_other_databases_are_looked_at_again() -> None:
    before = get_settings()
    conf._forget(setting="DEBUG")
    assert get_settings() is before
    conf._forget(setting="DATABASES")
    assert get_settings() is not before


def test_a_mistake_is_not_remembered_once_it_is_corrected() -> None:
    with override_settings(ULTIMATE_JOBS={"CONCURRENCY": 0}), pytest.raises(ConfigInvalid):
        get_settings()

    assert get_settings().concurrency == 8


# Environment
