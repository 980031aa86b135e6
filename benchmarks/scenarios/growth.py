"""Draining twenty thousand jobs out of a full table, in turn with a table that holds nothing else.

The limit of each figure is the empty table of the same side: once for ours, once for the raw limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.scenarios.drain import JOBS, RATE, begun, emptied, whole
from benchmarks.sides import Ours, Raw, Side

FINISHED = 500_000
WAITING = 200_000
VARIANTS: tuple[tuple[str, type[Side]], ...] = (("", Ours), ("raw", Raw))


def growth_finished(bench: Bench) -> Iterator[Figure]:
    """Drain a table that keeps half a million finished jobs."""
    count, rows = bench.scaled(JOBS), bench.scaled(FINISHED)

    def filled_up(full: Side) -> float:
        full.forget_bodies()
        full.filled(count)
        return emptied(full, count)

    for variant, kind in VARIANTS:
        empty, full = bench.side(kind), bench.side(kind, 1)
        full.clear()
        full.producer.call("finished", count=rows)
        found = bench.alternated(empty=partial(whole, empty, count), full=partial(filled_up, full))
        yield _grown("growth_finished", found, variant=variant, jobs=count, finished=rows)


def growth_waiting(bench: Bench) -> Iterator[Figure]:
    """Run the first of two hundred thousand jobs that are due."""
    count, rows = bench.scaled(JOBS), bench.scaled(WAITING)

    def first_of_many(full: Side) -> float:
        full.forget_bodies()
        return begun(full, count)

    def alone(empty: Side) -> float:
        empty.clear()
        empty.filled(count)
        return begun(empty, count)

    for variant, kind in VARIANTS:
        empty, full = bench.side(kind), bench.side(kind, 1)
        full.clear()
        full.producer.call("waiting", count=rows + count * bench.repeat)
        full.vacuumed()
        found = bench.alternated(empty=partial(alone, empty), full=partial(first_of_many, full))
        yield _grown("growth_waiting", found, variant=variant, jobs=count, waiting=rows)


def _grown(scenario: str, found: dict[str, list[float]], **settings: Any) -> Figure:
    return Figure.of(scenario, RATE, found["full"], found["empty"], **settings)
