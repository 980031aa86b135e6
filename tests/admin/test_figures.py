"""Numbers as an operator reads them."""

from __future__ import annotations

import pytest

from ultimate_jobs.admin.figures import age, at_least


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "\N{EN DASH}"),
        (-1.0, "0 s"),
        (0.4, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (3_600, "1 h"),
        (3_725, "1 h 2 min"),
        (187_200, "2 d 4 h"),
        (86_460, "1 d"),
    ],
)
def test_a_span_is_written_in_its_two_largest_units(seconds: float | None, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize(
    ("count", "capped", "text"),
    [(0, False, "0"), (1_204, False, "1,204"), (10_001, True, "10,000+"), (17, True, "17")],
)
def test_a_capped_count_is_what_it_is_no_less_than(count: int, *, capped: bool, text: str) -> None:
    assert at_least(count, capped=capped) == text
