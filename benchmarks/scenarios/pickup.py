"""From a commit to the first line of a body, in another process that was idle.

Both workers wait at the same time; jobs go to one and the other in turn, one at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.bench import Bench
from benchmarks.figures import Figure, percentile
from benchmarks.processes import pause

JOBS: Final = 30
PAUSES: Final = (0.1, 0.2)
"""Seconds between two jobs, one to each side."""

WARM_UP: Final = 3
PERCENTS: Final = (50, 95)


def pickup(bench: Bench) -> Iterator[Figure]:
    """Enqueue to an idle worker."""
    yield from _picked_up(bench, "pickup")


def pickup_outbox(bench: Bench) -> Iterator[Figure]:
    """Enqueue in a transaction, so that a relay moves the job; the limit has no outbox."""
    with bench.ours.relay():
        yield from _picked_up(bench, "pickup_outbox", staged=True)


def _picked_up(bench: Bench, scenario: str, *, staged: bool = False) -> Iterator[Figure]:
    count = bench.scaled(JOBS)
    ours, limit = [], []
    with bench.raw.idle_worker(), bench.ours.idle_worker():
        _in_turn(bench, WARM_UP, staged=staged)
        for number in range(bench.repeat):
            bench.say(f"{number + 1} of {bench.repeat}")
            ours_took, raw_took = zip(*_in_turn(bench, count, staged=staged), strict=True)
            ours.append(ours_took)
            limit.append(raw_took)
    for percent in PERCENTS:
        of = partial(percentile, percent=percent)
        yield Figure.of(
            scenario,
            "ms",
            list(map(of, ours)),
            list(map(of, limit)),
            variant=f"p{percent}",
            jobs=count,
        )


def _in_turn(bench: Bench, count: int, *, staged: bool) -> list[tuple[float, float]]:
    dice = random.Random(7)
    took = []
    for _ in range(count):
        pause(dice.uniform(*PAUSES))
        of_ours = bench.ours.run_one(staged=staged)
        pause(dice.uniform(*PAUSES))
        took.append((of_ours, bench.raw.run_one()))
    return took
