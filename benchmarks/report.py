"""Figures for reading: a table for the terminal, and tables for the documentation."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from benchmarks.figures import Figure


def table(figures: Iterable[Figure]) -> Table:
    """Answer a table for the terminal."""
    shown = Table("Scenario", "Variant", box=None, header_style="bold")
    for title in ("Ours", "Range", "Limit", "Ratio"):
        shown.add_column(title, justify="right")
    shown.add_column("Unit")
    for one in figures:
        limit = "" if one.limit is None else f"{one.limit:,g}"
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        spread = f"{one.min:,g} to {one.max:,g}"
        shown.add_row(*one.key, f"{one.value:,g}", spread, limit, ratio, one.unit)
    return shown
