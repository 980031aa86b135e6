"""From counts in time to the geometry of a bar chart: no markup, no database, no clock.

A chart is a row of slots of one width. Each slot that has counts is a stack of bars, one for each
series; a slot that has none keeps its place. Positions are written as text, in the units of the
drawing's view box, so that no template spells them in the language of a reader.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from django.utils import dateformat
from django.utils.translation import gettext as _, gettext_lazy

from ultimate_jobs.admin.text import Words

WIDTH = 640
HEIGHT = 190
LEFT, TOP, BOTTOM = 48, 10, 158
"""The plot, inside the view box: room for the texts is to its left and below it."""

ORIGIN = datetime(2000, 1, 1, tzinfo=UTC)
"""Slots are counted from here, as the database counts them."""

_MOST_STEPS = 5
_LEAST_HEIGHT = 2.0
"""One failure among a million is seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How a period is drawn: the width of a slot, where the time axis has ticks, what they say.

    A slot gets a tick when its ``part`` is another than that of the slot before it.
    """

    span: timedelta
    slot: timedelta
    words: Words
    slot_words: Words
    part: Callable[[datetime], Hashable]
    tick: str
    row: str


SCALES: Mapping[str, Scale] = MappingProxyType(
    {
        "1h": Scale(
            span=timedelta(hours=1),
            slot=timedelta(minutes=1),
            words=gettext_lazy("1 hour"),
            slot_words=gettext_lazy("by minute"),
            part=lambda at: (at.hour, at.minute // 10),
            tick="H:i",
            row="H:i",
        ),
        "24h": Scale(
            span=timedelta(hours=24),
            slot=timedelta(minutes=30),
            words=gettext_lazy("24 hours"),
            slot_words=gettext_lazy("by half hour"),
            part=lambda at: (at.toordinal(), at.hour // 3),
            tick="H:i",
            row="d M H:i",
        ),
        "7d": Scale(
            span=timedelta(days=7),
            slot=timedelta(hours=3),
            words=gettext_lazy("7 days"),
            slot_words=gettext_lazy("by 3 hours"),
            part=lambda at: at.toordinal(),
            tick="D d",
            row="d M H:i",
        ),
        "30d": Scale(
            span=timedelta(days=30),
            slot=timedelta(hours=12),
            words=gettext_lazy("30 days"),
            slot_words=gettext_lazy("by 12 hours"),
            part=lambda at: at.toordinal() // 5,
            tick="d M",
            row="d M H:i",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Slot:
    """One place on the time axis; ``counts`` is ``None`` where nothing was counted."""

    start: datetime
    counts: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class Bar:
    """One series of one slot."""

    series: str
    x: str
    y: str
    width: str
    height: str
    title: str


@dataclass(frozen=True, slots=True)
class Tick:
    """One mark on an axis. ``odd`` ones give way where there is little room."""

    at: str
    label: str
    odd: bool


@dataclass(frozen=True, slots=True)
class Total:
    """One series as a whole."""

    series: str
    count: int

    @property
    def text(self) -> str:
        """Write the count with its thousands apart."""
        return f"{self.count:,}"


@dataclass(frozen=True, slots=True)
class Row:
    """One slot in words, for the table beside the drawing."""

    label: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Everything that a template draws; with ``empty`` there is nothing to draw."""

    key: str
    title: str
    description: str
    totals: tuple[Total, ...]
    bars: tuple[Bar, ...] = ()
    time_ticks: tuple[Tick, ...] = ()
    count_ticks: tuple[Tick, ...] = ()
    rows: tuple[Row, ...] = ()
    empty: bool = False
    view_box: str = f"0 0 {WIDTH} {HEIGHT}"
    left: str = str(LEFT)
    right: str = str(WIDTH)
    label_x: str = str(LEFT - 8)
    label_y: str = str(HEIGHT - 8)


def slots_of(
    counted: Mapping[datetime, Mapping[str, int]], scale: Scale, now: datetime
) -> list[Slot]:
    """Lay out a period that ends with the slot of ``now``, the oldest slot first."""
    newest = ORIGIN + (now - ORIGIN) // scale.slot * scale.slot
    places = range(scale.span // scale.slot - 1, -1, -1)
    starts = (newest - place * scale.slot for place in places)
    return [Slot(start, counted.get(start)) for start in starts]


def bar_chart(
    key: str,
    title: str,
    slots: Sequence[Slot],
    series: Sequence[str],
    scale: Scale,
    local: Callable[[datetime], datetime] = lambda at: at,
) -> Chart:
    """Draw stacked bars.

    Args:
        key: what makes the ids of the drawing unique on its page.
        title: what the chart shows, in a word or two.
        slots: the time axis, the oldest first.
        series: what is stacked, from the bottom to the top.
        scale: the period that the slots are of.
        local: brings an instant to the clock of the reader.

    """
    totals = tuple(Total(name, sum(_count(slot, name) for slot in slots)) for name in series)
    heights = [sum(_count(slot, name) for name in series) for slot in slots]
    if not any(heights):
        words = _("Nothing in the last %(period)s.") % {"period": scale.words}
        return Chart(key=key, title=title, description=words, totals=totals, empty=True)
    steps = count_steps(max(heights))
    width = (WIDTH - LEFT) / len(slots)
    labels = [dateformat.format(local(slot.start), scale.row) for slot in slots]
    peak = heights.index(max(heights))
    return Chart(
        key=key,
        title=title,
        description=(
            _("Over %(period)s, %(slot)s: %(total)s in all, at most %(most)s from %(peak)s.")
            % {
                "period": scale.words,
                "slot": scale.slot_words,
                "total": f"{sum(heights):,}",
                "most": f"{heights[peak]:,}",
                "peak": labels[peak],
            }
        ),
        totals=totals,
        bars=tuple(
            bar
            for place, slot in enumerate(slots)
            for bar in _stack(slot, series, LEFT + place * width, width, steps[-1], labels[place])
        ),
        time_ticks=tuple(_time_ticks([local(slot.start) for slot in slots], scale, width)),
        count_ticks=tuple(
            Tick(_text(_height_of(step, steps[-1])), compact(step), odd=place % 2 == 1)
            for place, step in enumerate(steps)
        ),
        rows=tuple(
            Row(label, tuple(_count(slot, name) for name in series))
            for slot, label in zip(reversed(slots), reversed(labels), strict=True)
            if slot.counts is not None
        ),
    )


def count_steps(most: int) -> list[int]:
    """Answer the round numbers of a count axis, from 0 to one that is no less than ``most``.

    There are at most six of them.
    """
    sizes = (factor * 10**power for power in itertools.count() for factor in (1, 2, 5))
    step = next(size for size in sizes if size * _MOST_STEPS >= most)
    top = -(-max(most, 1) // step)
    return [step * place for place in range(top + 1)]


def compact(count: int) -> str:
    """Write a count in at most four characters and a half: ``950``, ``1.5k``, ``20k``, ``3M``."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def _stack(
    slot: Slot, series: Iterable[str], x: float, width: float, most: int, label: str
) -> Iterable[Bar]:
    gap = min(2.0, width / 4)
    below = 0
    for name in series:
        count = _count(slot, name)
        if not count:
            continue
        low, high = _height_of(below, most), _height_of(below + count, most)
        seam = 1.0 if below and low - high > 2 * _LEAST_HEIGHT else 0.0
        height = max(low - high - seam, _LEAST_HEIGHT)
        yield Bar(
            series=name,
            x=_text(x + gap / 2),
            y=_text(max(low - seam - height, 0)),
            width=_text(width - gap),
            height=_text(height),
            title=f"{label}: {count:,} {name}",
        )
        below += count


def _time_ticks(starts: Sequence[datetime], scale: Scale, width: float) -> Iterable[Tick]:
    parts = [scale.part(start) for start in starts]
    places = [place for place in range(1, len(parts)) if parts[place] != parts[place - 1]]
    for number, place in enumerate(places):
        label = dateformat.format(starts[place], scale.tick)
        yield Tick(_text(LEFT + place * width), label, odd=number % 2 == 1)


def _height_of(count: int, most: int) -> float:
    return BOTTOM - (BOTTOM - TOP) * count / most


def _count(slot: Slot, name: str) -> int:
    return 0 if slot.counts is None else slot.counts.get(name, 0)


def _text(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
