"""What follows the end of a child."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ultimate_jobs.supervise.restarts import (
    FIRST_WAIT,
    LONGEST_WAIT,
    SETTLED,
    GiveUp,
    Replace,
    after_end,
)

BRIEF = SETTLED / 2


@pytest.mark.parametrize("failures", [0, 1, 9])
@pytest.mark.parametrize("lived", [0.0, BRIEF, SETTLED * 9])
def test_a_child_that_ended_on_purpose_is_replaced_at_once(lived: float, failures: int) -> None:
    assert after_end(0, lived, failures) == Replace(0.0, 0)


@pytest.mark.parametrize("lived", [0.0, SETTLED * 9])
def test_a_child_that_refused_to_start_ends_everything(lived: float) -> None:
    assert after_end(2, lived, 0) == GiveUp(2)


@pytest.mark.parametrize(
    ("failures", "wait"), [(0, 0.5), (1, 1.0), (2, 2.0), (5, 16.0), (6, 30.0), (5_000, 30.0)]
)
@pytest.mark.parametrize("code", [1, 3, -9, -11])
def test_one_failure_after_the_other_is_waited_for_longer(
    code: int, failures: int, wait: float
) -> None:
    assert after_end(code, BRIEF, failures) == Replace(wait, failures + 1)


def test_a_failure_after_a_good_while_is_the_first_again() -> None:
    assert after_end(-9, SETTLED, 7) == Replace(FIRST_WAIT, 1)


@given(
    st.integers(-64, 255).filter(lambda code: code not in (0, 2)),
    st.floats(0, 1e9),
    st.integers(0, 10_000),
)
def test_a_failure_is_always_replaced_and_never_at_once(
    code: int, lived: float, failures: int
) -> None:
    decision = after_end(code, lived, failures)

    assert isinstance(decision, Replace)
    assert FIRST_WAIT <= decision.after <= LONGEST_WAIT
    assert decision.failures >= 1
