"""Figures: what was measured, beside its limit, as one line of JSON each. Nothing here does I/O."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of repeated measurements, with their range.

    Attributes:
        scenario: a row of the table of targets.
        value: median of ours, in ``unit``.
        min: least of ours.
        max: most of ours.
        limit: median of what it is held against, measured in the same run; None when nothing is.
        ratio: ``value`` by ``limit``; None where that says nothing.
        settings: what was measured exactly; ``variant`` tells figures of one scenario apart.

    """

    scenario: str
    value: float
    unit: str
    min: float
    max: float
    limit: float | None = None
    ratio: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        scenario: str,
        unit: str,
        ours: Sequence[float],
        limit: Sequence[float] = (),
        **settings: Any,
    ) -> Self:
        """Sum up repeated measurements of ours, and of the limit."""
        value = statistics.median(ours)
        bound = statistics.median(limit) if limit else None
        return cls(
            scenario,
            rounded(value),
            unit,
            rounded(min(ours)),
            rounded(max(ours)),
            None if bound is None else rounded(bound),
            rounded(value / bound) if bound else None,
            {name: value for name, value in settings.items() if value != ""},
        )

    @property
    def key(self) -> tuple[str, str]:
        """Answer what tells this figure from others: its scenario and variant."""
        return self.scenario, str(self.settings.get("variant", ""))

    def line(self) -> str:
        """Answer the figure as JSON, without a line end."""
        return json.dumps(asdict(self), ensure_ascii=False)


def parsed(lines: Iterable[str]) -> dict[tuple[str, str], Figure]:
    """Read lines of JSON by scenario and variant; of two alike, the later one counts.

    Raises:
        ValueError: a line is no figure; the message has its number.

    """
    known = {one.name for one in fields(Figure)}
    figures: dict[tuple[str, str], Figure] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            one = Figure(**{k: v for k, v in json.loads(line).items() if k in known})
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"line {number} is no figure: {error}") from error
        figures[one.key] = one
    return figures


def chosen(only: str, known: Sequence[str]) -> list[str]:
    """Read a list with commas of what to measure, in the order of what is known.

    Raises:
        ValueError: a name is not known.

    """
    asked = {name.strip() for name in only.split(",")} - {""}
    if unknown := sorted(asked - set(known)):
        raise ValueError(
            f"no scenario is called {', '.join(unknown)}; choose from {', '.join(known)}"
        )
    return [name for name in known if name in asked]


def alternated(
    repeat: int, measures: Mapping[str, Callable[[], float]], *, slices: int = 1
) -> dict[str, list[float]]:
    """Measure in turn, ``repeat`` times, so that a noisy moment meets all of them.

    Each measurement may be taken in slices, which are in turn as well, and is their median.
    """
    taken: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(repeat):
        turns = [[measure() for measure in measures.values()] for _ in range(slices)]
        for name, values in zip(measures, zip(*turns, strict=True), strict=True):
            taken[name].append(statistics.median(values))
    return taken


def percentile(values: Sequence[float], percent: float) -> float:
    """Answer the value that ``percent`` of them do not exceed, interpolated."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def rounded(value: float) -> float:
    """Leave four significant digits, and whole numbers above."""
    if abs(value) >= 1000:
        return round(value)
    return float(f"{value:.4g}")
