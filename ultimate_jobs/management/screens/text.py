"""How values look on a terminal: states in colour, spans and counts in few characters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

_STATE_STYLES = {
    "ready": "cyan",
    "delayed": "blue",
    "running": "yellow",
    "suspended": "magenta",
    "done": "green",
    "failed": "red",
    "dead": "bold red",
    "cancelled": "dim",
    "staged": "cyan",
    "standing by": "magenta",
    "started": "yellow",
    "completed": "green",
    "sleeping": "blue",
    "waiting": "magenta",
}


def shown(text: str) -> Text:
    """Make a stored text safe for a terminal: control characters are written out."""
    return Text("".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text))


def state(name: str) -> Text:
    """Write a state in its colour."""
    return Text(name, style=_STATE_STYLES.get(name, ""))


def words(key: str) -> str:
    """Write the key of a document as a heading."""
    return key.replace("_", " ")


def instant(text: str | None) -> Text:
    """Write an instant to the second."""
    return Text("" if text is None else f"{text[:19]}Z")


def seconds(span: float | None) -> Text:
    """Write a span of time in its largest units."""
    if span is None:
        return Text("")
    if span < 60:
        return Text(f"{span:.1f} s")
    whole = int(span)
    if whole < 3_600:
        return Text(f"{whole // 60} min {whole % 60} s")
    if whole < 86_400:
        return Text(f"{whole // 3_600} h {whole % 3_600 // 60} min")
    return Text(f"{whole // 86_400} d {whole % 86_400 // 3_600} h")


def number(count: int, *, capped: bool = False, cap: int = 10_000) -> Text:
    """Write a count; one that reached its cap is a lower bound."""
    return Text(f"{cap:,}+" if capped and count > cap else f"{count:,}")


def first_line(text: str | None, length: int = 80) -> Text:
    """Write the first line of an error."""
    return shown((text or "").partition("\n")[0][:length])


def value(plain: Any) -> Text:
    """Write a plain value."""
    return shown(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


def table(
    headings: Sequence[str], rows: Iterable[Sequence[RenderableType]], *, whole: Sequence[str] = ()
) -> Table:
    """Lay out rows under headings; columns in ``whole`` are never broken."""
    grid = Table(box=None, pad_edge=False)
    for heading in headings:
        grid.add_column(heading, overflow="fold", no_wrap=heading in whole)
    for row in rows:
        grid.add_row(*row)
    return grid


def pairs(fields: Iterable[tuple[str, RenderableType]]) -> Table:
    """Lay out names and values."""
    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column("field", style="dim", no_wrap=True)
    grid.add_column("value", overflow="fold")
    for name, shown_value in fields:
        grid.add_row(name, shown_value)
    return grid
