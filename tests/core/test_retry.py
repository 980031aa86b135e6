"""Retry policies: what may be declared, how long the waits are, and what errors mean."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ultimate_jobs import errors
from ultimate_jobs.core import retry as module
from ultimate_jobs.core.durations import LONGEST
from ultimate_jobs.core.retry import (
    Retry,
    classify,
    code_of,
    register_error_retry,
    retry_after,
)
from ultimate_jobs.errors import DeclarationInvalid, ErrorRetryInvalid, JobsError, RetryClass

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_registered", {})


# Declarations


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("attempts", value) for value in (0, -1, 1.5, 1.0, True, "3", None, 1_000_001)),
        *(("backoff", value) for value in ("", "Exponential", "quadratic", None)),
        *(
            (field, value)
            for field in ("delay", "max_delay")
            for value in (0, -1, float("nan"), float("inf"), True, None, "1 s", "", "-1s", 1e300)
        ),
        *((field, value) for field in ("jitter", "dead_letter") for value in (1, None, "yes")),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(field: str, value: object) -> None:
    with pytest.raises(DeclarationInvalid) as caught:
        Retry(**{field: value})  # type: ignore[arg-type]

    assert f"retry.{field}" in caught.value.cause


def test_a_policy_has_defaults() -> None:
    assert Retry() == Retry(
        attempts=3,
        backoff="exponential",
        delay=SECOND,
        max_delay=HOUR,
        jitter=True,
        dead_letter=True,
    )


@pytest.mark.parametrize(
    ("written", "read"), [("1m30s", timedelta(seconds=90)), (0.25, timedelta(milliseconds=250))]
)
def test_waits_are_read_once(written: Any, read: timedelta) -> None:
    assert Retry(delay=written).delay == read


# Waits


WAITS: dict[str, tuple[Retry, list[float]]] = {
    "exponential": (Retry(attempts=6, jitter=False), [1, 2, 4, 8, 16]),
    "linear": (Retry(attempts=6, backoff="linear", delay=3, jitter=False), [3, 6, 9, 12, 15]),
    "fixed": (Retry(attempts=4, backoff="fixed", delay=5, jitter=False), [5, 5, 5]),
    "capped": (Retry(attempts=6, max_delay=5, jitter=False), [1, 2, 4, 5, 5]),
    "a first wait past the cap": (Retry(attempts=3, delay=10, max_delay=5), [5, 5]),
    "one attempt": (Retry(attempts=1), []),
}


@pytest.mark.parametrize("name", WAITS)
def test_the_schedule_lists_every_wait(name: str) -> None:
    policy, waits = WAITS[name]

    assert [wait.total_seconds() for wait in policy.schedule()] == waits
    assert [policy.wait_after(n) for n in range(1, len(waits) + 1)] == policy.schedule()


ATTEMPTS = [1, 2, 16, 63, 64, 65, 1_023, 1_024, 1_025, 4_999]


@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize("backoff", ["exponential", "linear", "fixed"])
@pytest.mark.parametrize("roll", [0.0, 0.5, 1.0])
def test_no_attempt_is_too_many_for_a_wait(attempt: int, backoff: Any, roll: float) -> None:
    policy = Retry(attempts=5_000, backoff=backoff)

    assert SECOND / 2 <= policy.wait_after(attempt, roll) <= HOUR


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(1, 1), (2, 2), (16, 3_600), (63, 3_600), (64, 3_600), (1_025, 3_600), (4_999, 3_600)],
)
def test_without_jitter_the_waits_are_exact(attempt: int, seconds: float) -> None:
    assert Retry(attempts=5_000, jitter=False).wait_after(attempt) == timedelta(seconds=seconds)


def test_the_longest_declared_wait_is_still_finite() -> None:
    policy = Retry(attempts=5_000, delay=timedelta(microseconds=1), max_delay=LONGEST, jitter=False)

    assert policy.wait_after(4_999) == LONGEST


def test_jobs_that_fail_together_at_the_cap_come_back_apart() -> None:
    policy, dice = Retry(max_delay=HOUR), random.Random(1)  # noqa: S311 - no secret
    waits = [policy.wait_after(60, dice.random()) for _ in range(1_000)]

    assert max(waits) - min(waits) >= HOUR / 4
    most_in_one_second = max(Counter(int(w.total_seconds()) for w in waits).values())
    assert most_in_one_second <= 50


@given(
    attempt=st.integers(1, 10_000),
    roll=st.floats(0, 1),
    delay=st.floats(1e-6, 1e8),
    most=st.floats(1e-6, 1e8),
    backoff=st.sampled_from(["exponential", "linear", "fixed"]),
)
def test_a_wait_is_at_least_half_its_cap_and_never_more_than_it(
    attempt: int, roll: float, delay: float, most: float, backoff: Any
) -> None:
    policy = Retry(backoff=backoff, delay=delay, max_delay=most)
    exact = Retry(backoff=backoff, delay=delay, max_delay=most, jitter=False).wait_after(attempt)

    wait = policy.wait_after(attempt, roll)

    assert timedelta(0) <= exact / 2 <= wait <= exact <= policy.longest


def test_a_cap_of_an_odd_number_of_microseconds_is_kept_to_the_last_one() -> None:
    policy = Retry(delay=2, max_delay=1.609375)

    assert policy.wait_after(1, 1.0) == policy.longest


@given(st.integers(1, 200), st.sampled_from(["exponential", "linear", "fixed"]))
def test_waits_never_shrink(attempt: int, backoff: Any) -> None:
    policy = Retry(attempts=500, backoff=backoff, jitter=False)

    assert policy.wait_after(attempt) <= policy.wait_after(attempt + 1)


# What an error means


class CodedError(Exception):
    def __init__(self, code: object, meta: object = None) -> None:
        super().__init__()
        self.code = code
        self.meta = meta


class HostileError(Exception):
    @property
    def code(self) -> str:
        raise RuntimeError


def test_an_errors_class_is_the_one_registered_for_its_code() -> None:
    register_error_retry({"CARD_DECLINED": "terminal", "BUSY": "retry-after"})

    assert classify(CodedError("CARD_DECLINED")) == "terminal"
    assert classify(CodedError("BUSY")) == "retry-after"
    assert classify(CodedError("OTHER")) is None
    assert classify(ValueError()) is None


def test_the_packages_own_errors_say_themselves_what_they_mean() -> None:
    assert classify(errors.InputInvalid("x")) == "terminal"
    assert classify(errors.RateLimited(1)) == "retry-after"
    assert classify(errors.Aborted("x")) is None


@pytest.mark.parametrize(
    "classes",
    [
        {"MINE": "sometimes"},
        {"X_RATE_LIMITED": "terminal"},
        {"X_JOB_DUPLICATE": "retryable"},
        {"X_JOBS": "terminal"},
        {"TAKEN": "retryable"},
    ],
)
def test_a_registration_that_cannot_be_meant_registers_nothing(
    classes: dict[str, RetryClass],
) -> None:
    register_error_retry({"TAKEN": "terminal"})

    with pytest.raises(ErrorRetryInvalid):
        register_error_retry({"NEW": "terminal", **classes})

    assert classify(CodedError("NEW")) is None
    assert classify(CodedError("TAKEN")) == "terminal"


def test_the_same_registration_twice_changes_nothing() -> None:
    register_error_retry({"MINE": "terminal"})
    register_error_retry({"MINE": "terminal"})

    assert classify(CodedError("MINE")) == "terminal"


@pytest.mark.parametrize("error", [ValueError(), CodedError(7), CodedError(""), HostileError()])
def test_an_error_without_a_readable_code_has_none(error: Exception) -> None:
    assert code_of(error) is None


def test_a_code_is_cut_to_a_length_that_a_log_line_bears() -> None:
    assert len(code_of(CodedError("x" * 10_000)) or "") == 200


@pytest.mark.parametrize(
    ("meta", "wait"),
    [
        ({"retry_after_seconds": 5}, timedelta(seconds=5)),
        ({"retry_after_seconds": 0}, timedelta(0)),
        ({"retry_after_seconds": "1m"}, timedelta(minutes=1)),
        ({"retry_after_seconds": -1}, None),
        ({"retry_after_seconds": float("nan")}, None),
        ({"retry_after_seconds": 1e300}, None),
        ({"retry_after_seconds": None}, None),
        ({}, None),
        (None, None),
        ("retry_after_seconds", None),
    ],
)
def test_a_wait_that_an_error_names_is_read_when_it_makes_sense(
    meta: object, wait: timedelta | None
) -> None:
    assert retry_after(CodedError("BUSY", meta)) == wait


@pytest.mark.parametrize(
    ("asked", "seconds"), [(0, 1), (-5, 1), (0.5, 1), (7, 7), (86_400, 86_400), (1e9, 86_400)]
)
def test_a_spent_budget_waits_a_second_at_least_and_a_day_at_most(
    asked: float, seconds: float
) -> None:
    assert retry_after(errors.RateLimited(asked)) == timedelta(seconds=seconds)


def _subclasses(root: type[JobsError]) -> Iterator[type[JobsError]]:
    yield root
    for child in root.__subclasses__():
        yield from _subclasses(child)


def test_no_code_of_the_package_can_be_registered() -> None:
    ours = [e for e in _subclasses(JobsError) if e.__module__ == "ultimate_jobs.errors"]
    assert len(ours) > 30
    for error in ours:
        with pytest.raises(ErrorRetryInvalid):
            register_error_retry({error.code: "terminal"})
