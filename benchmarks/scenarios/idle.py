"""What a worker costs that has nothing to do.

Both workers idle at the same time, for a minute and some more; what is told are three minutes that
begin some seconds apart. Transactions are all of the database, autovacuum's included.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.processes import Process, pause
from benchmarks.sides import Side

MINUTE: Final = 60.0
APART: Final = 5.0
QUIET: Final = 12.0
"""Seconds after its last job before a worker counts as idle; statistics come up to ten late."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one side has spent so far."""

    at: float
    transactions: int
    cpu_seconds: float

    @classmethod
    def of(cls, side: Side, process: Process) -> Self:
        """Look at a side and its worker."""
        return cls(time.monotonic(), side.transactions(), process.cpu_seconds())


def idle(bench: Bench) -> Iterator[Figure]:
    """Watch two workers do nothing."""
    minute, apart, quiet = (seconds * bench.scale for seconds in (MINUTE, APART, QUIET))
    sides = (bench.ours, bench.raw)
    with bench.ours.idle_worker() as ours, bench.raw.idle_worker() as raw:
        bench.say("quiet")
        pause(quiet)
        looks = [n * apart + later for later in (0, minute) for n in range(bench.repeat)]
        began, samples = time.monotonic(), []
        for look in looks:
            pause(began + look - time.monotonic())
            bench.say(f"second {look:.0f}")
            samples.append(tuple(map(Sample.of, sides, (ours, raw))))
        memory = [process.proportional_mb() for process in (ours, raw)]
        resident = ours.resident_mb()
    windows = list(zip(samples[: bench.repeat], samples[bench.repeat :], strict=True))
    for unit, variant in (("transactions/min", ""), ("CPU s/min", "cpu")):
        found = [[_spent(a[n], b[n], variant) for a, b in windows] for n in range(len(sides))]
        yield Figure.of("idle", unit, *found, variant=variant, seconds=minute)
    yield Figure.of(
        "idle", "MB PSS", memory[:1], memory[1:], variant="memory", resident_mb=round(resident, 1)
    )


def _spent(first: Sample, last: Sample, variant: str) -> float:
    spent = (
        last.cpu_seconds - first.cpu_seconds
        if variant == "cpu"
        else last.transactions - first.transactions
    )
    return spent * MINUTE / (last.at - first.at)
