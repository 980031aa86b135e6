"""Figures: how measurements are summed up, written, read again and shown."""

from __future__ import annotations

import json

import pytest

from benchmarks.figures import Figure, alternated, chosen, parsed, percentile, rounded
from benchmarks.report import markdown

DRAIN = Figure.of("drain", "jobs/s", [900.0, 1100.0, 1000.0], [4000.0, 2000.0], jobs=20, variant="")
PICKUP = Figure.of("pickup", "ms", [1.5], variant="p50")


def test_a_figure_is_the_median_with_its_range_beside_the_median_of_the_limit() -> None:
    assert json.loads(DRAIN.line()) == {
        "scenario": "drain",
        "value": 1000,
        "unit": "jobs/s",
        "min": 900.0,
        "max": 1100,
        "limit": 3000,
        "ratio": 0.3333,
        "settings": {"jobs": 20},
    }


def test_a_figure_without_a_limit_has_no_ratio() -> None:
    assert (PICKUP.limit, PICKUP.ratio) == (None, None)


def test_a_limit_of_nothing_gives_no_ratio() -> None:
    assert Figure.of("idle", "CPU s/min", [0.1], [0.0]).ratio is None


def test_lines_are_read_again_and_the_later_of_two_counts() -> None:
    later = Figure.of("drain", "jobs/s", [1.0])
    lines = [DRAIN.line(), "", PICKUP.line(), later.line()]
    assert parsed(lines) == {("drain", ""): later, ("pickup", "p50"): PICKUP}


@pytest.mark.parametrize("line", ["no JSON", "[]", "{}", "3"])
def test_a_line_that_is_no_figure_is_named_by_its_number(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 is no figure"):
        parsed([DRAIN.line(), line])


def test_measurements_are_taken_in_turn_and_so_are_their_slices() -> None:
    order = []

    def measure(name: str, *values: float) -> float:
        order.append(name)
        return values[order.count(name) - 1]

    taken = alternated(
        2,
        {
            "a": lambda: measure("a", 1, 9, 2, 3, 3, 3),
            "b": lambda: measure("b", 5, 5, 5, 6, 6, 6),
        },
        slices=3,
    )
    assert order == ["a", "b"] * 6
    assert taken == {"a": [2, 3], "b": [5, 6]}


def test_scenarios_are_chosen_in_their_own_order() -> None:
    assert chosen(" b,a ", ["a", "b", "c"]) == ["a", "b"]


def test_a_scenario_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="no scenario is called d; choose from a, b"):
        chosen("a,d", ["a", "b"])


def test_a_percentile_lies_between_the_two_values_around_it() -> None:
    assert percentile([4.0, 1.0, 2.0, 3.0], 50) == 2.5
    assert percentile([7.0], 95) == 7.0


@pytest.mark.parametrize(("value", "shown"), [(0.123456, 0.1235), (12.3456, 12.35), (1234.6, 1235)])
def test_figures_have_four_digits(value: float, shown: float) -> None:
    assert rounded(value) == shown


def test_the_table_is_markdown_with_numbers_to_the_right() -> None:
    assert markdown([DRAIN, PICKUP]).splitlines() == [
        "| Scenario    |  Ours |     Range | Limit | Ratio | Unit   |",
        "|-------------|------:|----------:|------:|------:|--------|",
        "| drain       | 1,000 | 900–1,100 | 3,000 |  0.33 | jobs/s |",  # noqa: RUF001
        "| pickup, p50 |   1.5 |   1.5–1.5 |       |       | ms     |",  # noqa: RUF001
    ]
