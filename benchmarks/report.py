"""Figures for reading: a table in Markdown, for the terminal and for the documentation alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from benchmarks.figures import Figure

HEAD: Final = ("Scenario", "Ours", "Range", "Limit", "Ratio", "Unit")
RIGHT: Final = HEAD[1:-1]


def markdown(figures: Iterable[Figure]) -> str:
    """Answer a table of them, without a line end."""
    rows = [HEAD, *map(_row, figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    head, *body = (list(_padded(row, widths)) for row in rows)
    ruler = [
        "-" * (width + 1) + (":" if title in RIGHT else "-")
        for title, width in zip(HEAD, widths, strict=True)
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *body)]
    return "\n".join([lines[0], f"|{'|'.join(ruler)}|", *lines[1:]])


def _row(one: Figure) -> tuple[str, ...]:
    return (
        ", ".join(filter(None, one.key)),
        _number(one.value),
        f"{_number(one.min)}–{_number(one.max)}",  # noqa: RUF001 - a range
        "" if one.limit is None else _number(one.limit),
        "" if one.ratio is None else f"{one.ratio:.2f}",
        one.unit,
    )


def _padded(row: Iterable[str], widths: Iterable[int]) -> Iterator[str]:
    for title, cell, width in zip(HEAD, row, widths, strict=True):
        yield cell.rjust(width) if title in RIGHT else cell.ljust(width)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
