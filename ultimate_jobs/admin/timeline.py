"""The steps of a run along its time: where each begins and how long it is, in percent of the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

_LEAST_WIDTH = 0.5
_OPEN = frozenset({"started", "sleeping", "waiting"})


@dataclass(frozen=True, slots=True)
class Bar:
    """One step: where its bar begins, how wide it is, and how long the step took."""

    x: str
    width: str
    took: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """A bar for each step, in the order of the steps, and how long all of them took."""

    bars: tuple[Bar, ...]
    span: str


def timeline(steps: Sequence[Mapping[str, Any]], until: str) -> Timeline | None:
    """Draw the steps, from the first start to the last known instant; ``None``: there are none.

    A step that has not ended is drawn to ``until``, or to the time it waits for when that is later.
    """
    if not steps:
        return None
    spans = [_span(step, datetime.fromisoformat(until)) for step in steps]
    start = min(begin for begin, _ in spans)
    length = max(max(end for _, end in spans) - start, timedelta(milliseconds=1))
    bars = tuple(
        _bar(step, (begin - start) / length * 100, (end - begin) / length * 100)
        for step, (begin, end) in zip(steps, spans, strict=True)
    )
    return Timeline(bars, spelled(length))


def spelled(span: timedelta) -> str:
    """Write how long something took, in the unit that suits it."""
    seconds = span.total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds * 1000:.0f} ms"


def _span(step: Mapping[str, Any], until: datetime) -> tuple[datetime, datetime]:
    begin = datetime.fromisoformat(step["started_at"])
    if step["completed_at"]:
        return begin, max(begin, datetime.fromisoformat(step["completed_at"]))
    if step["status"] not in _OPEN:
        return begin, begin
    due = datetime.fromisoformat(step["wake_at"]) if step["wake_at"] else begin
    return begin, max(begin, until, due)


def _bar(step: Mapping[str, Any], x: float, width: float) -> Bar:
    shown = max(width, _LEAST_WIDTH)
    took = step["duration_ms"]
    return Bar(
        x=f"{min(x, 100 - shown):.3f}%",
        width=f"{shown:.3f}%",
        took="" if took is None else spelled(timedelta(milliseconds=took)),
    )
