"""Running a full queue of jobs that do nothing.

The clock starts at the first body, and stops when the last one has begun and the tables say that
nothing is unfinished. The workers are as they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.processes import Process, wait_for
from benchmarks.sides import Side

RATE: Final = "jobs/s"
JOBS: Final = 20_000


def drain(bench: Bench) -> Iterator[Figure]:
    """Drain twenty thousand with one process."""
    yield _drained(bench, "drain", workers=1)


def drain_2(bench: Bench) -> Iterator[Figure]:
    """Drain twenty thousand with two processes."""
    yield _drained(bench, "drain_2", workers=2)


def _drained(bench: Bench, scenario: str, *, workers: int) -> Figure:
    count = bench.scaled(JOBS)
    found = bench.alternated(
        raw=lambda: whole(bench.raw, count, workers=workers),
        ours=lambda: whole(bench.ours, count, workers=workers),
    )
    return Figure.of(scenario, RATE, found["ours"], found["raw"], jobs=count, processes=workers)


def whole(side: Side, count: int, *, workers: int = 1) -> float:
    """Empty the side, fill it and drain it; answer jobs a second."""
    side.clear()
    side.filled(count)
    return emptied(side, count, workers=workers)


def emptied(side: Side, count: int, *, workers: int = 1) -> float:
    """Drain the ``count`` jobs that are due; answer jobs a second."""
    with running(side, count, workers):
        end = side.wait_until_settled()
        ticks = side.ticked()
    if ticks.count != count:
        raise RuntimeError(f"{ticks.count:,} bodies ran for {count:,} jobs")
    return count / (end - ticks.first) * 1e9


def begun(side: Side, count: int) -> float:
    """Run at least ``count`` of the jobs that are due; answer how many began in a second."""
    with running(side, count):
        ticks = side.ticked()
    return ticks.count / max(1, ticks.last - ticks.first) * 1e9


@contextmanager
def running(side: Side, count: int, workers: int = 1) -> Iterator[list[Process]]:
    """Run workers inside the block, which is entered when so many bodies have begun."""
    with ExitStack() as stack:
        started = [stack.enter_context(side.worker()) for _ in range(workers)]
        wait_for(
            "every body",
            lambda: all(one.lives for one in started) and side.ticked().count >= count,
        )
        yield started
