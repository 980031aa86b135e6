"""Figures for reading: a table in Markdown, for the terminal and for the documentation alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from benchmarks.figures import Figure

HEAD: Final = ("Scenario", "Ours", "Range", "Limit", "Ratio", "Unit")
RIGHT: Final = frozenset({1, 2, 3, 4})


def markdown(figures: Iterable[Figure]) -> str:
    """Answer a table of them, without a line end."""
    return lined_up(HEAD, map(_row, figures), right=RIGHT)


def lined_up(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[int]) -> str:
    """Answer a table in Markdown whose columns are as wide as they must be."""
    all_rows = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*all_rows, strict=True)]
    lines = []
    for row in all_rows:
        cells = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"| {' | '.join(cells)} |")
    ruler = "|".join(
        "-" * (width + 1) + (":" if number in right else "-") for number, width in enumerate(widths)
    )
    return "\n".join([lines[0], f"|{ruler}|", *lines[1:]])


def _row(one: Figure) -> tuple[str, ...]:
    return (
        ", ".join(filter(None, one.key)),
        _number(one.value),
        f"{_number(one.min)}–{_number(one.max)}",  # noqa: RUF001 - a range
        "" if one.limit is None else _number(one.limit),
        "" if one.ratio is None else f"{one.ratio:.2f}",
        one.unit,
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
