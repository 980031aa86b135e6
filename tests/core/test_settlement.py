"""What an ending becomes: the whole decision, case by case."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from ultimate_jobs.core.records import Settlement, Tally
from ultimate_jobs.core.retry import Retry
from ultimate_jobs.core.settlement import (
    Completed,
    Ending,
    Failed,
    Interrupted,
    Outcome,
    StopReason,
    Verdict,
    decide,
    is_final,
)
from ultimate_jobs.core.states import JobState
from ultimate_jobs.errors import RetryClass

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
PLAIN = Retry(attempts=3, delay=SECOND, jitter=False)
UNDEAD = Retry(attempts=3, delay=SECOND, jitter=False, dead_letter=False)


def verdict(outcome: Outcome, *, attempt: int = 1, retry: Retry = PLAIN) -> Verdict:
    return decide(outcome, attempt=attempt, attempts=3, retry=retry, roll=1.0)


def again(wait: timedelta, error: str = "boom") -> Verdict:
    return Verdict(Settlement(state=JobState.READY, wait=wait, error=error, tally=Tally(retried=1)))


def given_back(wait: timedelta = timedelta(0)) -> Verdict:
    return Verdict(Settlement(state=JobState.READY, counted=False, wait=wait))


def dead(stop: StopReason, error: str = "boom") -> Verdict:
    ending = Settlement(state=JobState.DEAD, error=error, tally=Tally(dead=1))
    return Verdict(ending, Ending.DEAD_LETTERED, stop)


def dropped(stop: StopReason, error: str = "boom") -> Verdict:
    ending = Settlement(state=JobState.FAILED, error=error, tally=Tally(failed=1))
    return Verdict(ending, Ending.DROPPED, stop)


@dataclass(frozen=True)
class Case:
    outcome: Outcome
    expected: Verdict
    attempt: int = 1
    retry: Retry = PLAIN


def failed(
    code: str | None = None, retry: RetryClass | None = None, after: timedelta | None = None
) -> Failed:
    return Failed(error="boom", code=code, retry=retry, retry_after=after)


NOT_RETRIED = "boom (not retried: X_MINE is terminal)"

CASES = {
    "a body that returned": Case(
        Completed("[1]"),
        Verdict(
            Settlement(state=JobState.DONE, result="[1]", tally=Tally(done=1)), Ending.COMPLETED
        ),
    ),
    "a body that returned on its last attempt": Case(
        Completed("null"),
        Verdict(
            Settlement(state=JobState.DONE, result="null", tally=Tally(done=1)), Ending.COMPLETED
        ),
        attempt=3,
    ),
    "an interruption": Case(Interrupted(), given_back()),
    "an interruption of the last attempt": Case(Interrupted(), given_back(), attempt=3),
    "a first failure": Case(failed(), again(SECOND)),
    "a second failure": Case(failed(), again(2 * SECOND), attempt=2),
    "a failure said to be retryable": Case(failed("X_MINE", "retryable"), again(SECOND)),
    "a last failure": Case(failed(), dead(StopReason.ATTEMPTS_EXHAUSTED), attempt=3),
    "a last failure said to be retryable": Case(
        failed("X_MINE", "retryable"), dead(StopReason.ATTEMPTS_EXHAUSTED), attempt=3
    ),
    "a failure past the last": Case(failed(), dead(StopReason.ATTEMPTS_EXHAUSTED), attempt=9),
    "a last failure without dead letters": Case(
        failed(), dropped(StopReason.ATTEMPTS_EXHAUSTED), attempt=3, retry=UNDEAD
    ),
    "a terminal failure": Case(
        failed("X_MINE", "terminal"), dead(StopReason.TERMINAL, NOT_RETRIED)
    ),
    "a terminal failure on the last attempt": Case(
        failed("X_MINE", "terminal"), dead(StopReason.TERMINAL, NOT_RETRIED), attempt=3
    ),
    "a terminal failure without dead letters": Case(
        failed("X_MINE", "terminal"), dropped(StopReason.TERMINAL, NOT_RETRIED), retry=UNDEAD
    ),
    "a failure that names its wait": Case(
        failed("X_MINE", "retry-after", 7 * SECOND), again(7 * SECOND)
    ),
    "a named wait of nothing": Case(
        failed("X_MINE", "retry-after", timedelta(0)), again(timedelta(0))
    ),
    "a named wait past the longest": Case(failed("X_MINE", "retry-after", 24 * HOUR), again(HOUR)),
    "a failure that names no wait that makes sense": Case(
        failed("X_MINE", "retry-after"), again(SECOND)
    ),
    "a named wait on the last attempt": Case(
        failed("X_MINE", "retry-after", SECOND), dead(StopReason.ATTEMPTS_EXHAUSTED), attempt=3
    ),
    "a wait without the class": Case(failed("X_MINE", None, 7 * SECOND), again(SECOND)),
    "a spent budget": Case(
        failed("X_RATE_LIMITED", "retry-after", 24 * HOUR), given_back(24 * HOUR)
    ),
    "a spent budget on the last attempt": Case(
        failed("X_RATE_LIMITED", "retry-after", SECOND), given_back(SECOND), attempt=3
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_ending_is_decided_as_the_table_says(name: str) -> None:
    case = CASES[name]

    assert verdict(case.outcome, attempt=case.attempt, retry=case.retry) == case.expected


def test_the_reason_not_to_retry_is_on_the_first_line_of_the_error() -> None:
    failure = Failed(error="Boom: no\n  File x", code="X_MINE", retry="terminal")

    assert verdict(failure).settlement.error == (
        "Boom: no (not retried: X_MINE is terminal)\n  File x"
    )


@pytest.mark.parametrize(("attempt", "final"), [(1, False), (2, False), (3, True), (4, True)])
def test_the_last_attempt_is_known_as_such(attempt: int, *, final: bool) -> None:
    assert is_final(attempt, 3) is final


outcomes = st.one_of(
    st.just(Completed("null")),
    st.just(Interrupted()),
    st.builds(
        Failed,
        error=st.just("boom"),
        code=st.sampled_from([None, "X_MINE", "X_RATE_LIMITED"]),
        retry=st.sampled_from([None, "terminal", "retryable", "retry-after"]),
        retry_after=st.none() | st.timedeltas(timedelta(0), timedelta(days=3650)),
    ),
)


policies = st.builds(Retry, attempts=st.integers(1, 9), dead_letter=st.booleans())


@given(outcomes, policies, st.integers(1, 9), st.floats(0, 1))
def test_whatever_happens_the_ending_is_whole(
    outcome: Outcome, policy: Retry, attempt: int, roll: float
) -> None:
    attempts = policy.attempts

    found = decide(outcome, attempt=attempt, attempts=attempts, retry=policy, roll=roll)

    settlement, tally = found.settlement, found.settlement.tally
    counts = (tally.done, tally.retried, tally.failed, tally.dead)
    assert sum(counts) == (1 if settlement.counted else 0)
    assert (found.ending is None) == (settlement.state is JobState.READY)
    assert settlement.wait >= timedelta(0)
    assert settlement.wait == timedelta(0) or settlement.state is JobState.READY
    assert (settlement.error is None) == (tally.done == 1 or not settlement.counted)
    if isinstance(outcome, Failed) and settlement.state is JobState.READY and settlement.counted:
        assert attempt < attempts
