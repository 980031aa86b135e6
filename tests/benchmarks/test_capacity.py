"""The table of capacity: arithmetic over what one job costs."""

from __future__ import annotations

import pytest

from benchmarks.capacity import MIXES, table
from benchmarks.figures import Figure

KINDS = {"client": 300.0, "server": 100.0, "log": 1_000.0}
FIGURES = {
    ("cost", f"{what}, {kind}"): Figure.of("cost", "", [value])
    for what in {what for mix in MIXES for what in mix.costs}
    for kind, value in KINDS.items()
}


def test_cores_are_filled_to_a_part_with_what_a_job_costs() -> None:
    lines = table(FIGURES).splitlines()
    assert len(lines) == 2 + len(MIXES)
    # Two costs of 400 µs: 2 cores * 0.7 * 86,400 s / 800 µs.
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == [
        "by `enqueue_many`, empty bodies",
        *("151", "302", "605", "1,210", "2,419"),
        "25%",
        "2.0 GB",
    ]


def test_a_cost_that_was_not_measured_is_missed() -> None:
    with pytest.raises(KeyError):
        table({})
