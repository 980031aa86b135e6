"""How many jobs a day so many cores carry, by what one job costs. Nothing here does I/O.

The model: the processor is what runs out first, at ``BUSY`` of it; what one job costs does not depend
on how many there are; a core of the server and a core of a worker are alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.figures import Figure
from benchmarks.report import lined_up

BUSY: Final = 0.7
"""Part of the processor that may be busy on average; the rest is for peaks and for housekeeping."""

DAY: Final = 86_400
CORES: Final = (2, 4, 8, 16, 32)
HEAD: Final = (
    "Jobs",
    *(f"{cores} cores" for cores in CORES),
    "PostgreSQL's share",
    "Log by a million jobs",
)


@dataclass(frozen=True, slots=True)
class Mix:
    """What happens to one job: the costs that it has, and what its body takes itself."""

    name: str
    costs: tuple[str, ...]
    body_microseconds: float = 0.0


STAGED: Final = ("enqueue in a transaction", "relay")
MIXES: Final = (
    Mix("by `enqueue_many`, empty bodies", ("enqueue_many", "run")),
    Mix("in transactions, empty bodies", (*STAGED, "run")),
    Mix("in transactions, bodies of 10 ms", (*STAGED, "run"), 10_000),
    Mix("in transactions, five steps", (*STAGED, "run of five steps")),
)


def table(figures: Mapping[tuple[str, str], Figure]) -> str:
    """Answer the table in Markdown: millions of jobs a day.

    Raises:
        KeyError: a figure of ``cost`` is missing.

    """
    rows = [_row(mix, figures) for mix in MIXES]
    return lined_up(HEAD, rows, right=range(1, len(HEAD)))


def _row(mix: Mix, figures: Mapping[tuple[str, str], Figure]) -> tuple[str, ...]:
    def of(kind: str) -> float:
        return sum(figures["cost", f"{cost}, {kind}"].value for cost in mix.costs)

    whole = of("client") + of("server") + mix.body_microseconds
    a_day = [cores * BUSY * DAY * 1e6 / whole for cores in CORES]
    return (
        mix.name,
        *(f"{jobs / 1e6:,.0f}" for jobs in a_day),
        f"{of('server') / whole:.0%}",
        f"{of('log') / 1e3:.1f} GB",
    )
