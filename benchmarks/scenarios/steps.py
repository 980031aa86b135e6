"""Runs of five steps, each step stored by a commit of its own."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from benchmarks.bench import Bench
from benchmarks.figures import Figure, rounded
from benchmarks.scenarios.drain import emptied

RUNS: Final = 500
CONNECTIONS: Final = 8
"""Connections that write the steps of the limit: as many as a worker runs bodies."""


def steps(bench: Bench) -> Iterator[Figure]:
    """Run five hundred with one process; the limit writes their steps and nothing else."""
    count = bench.scaled(RUNS)
    commits = []

    def limit() -> float:
        bench.raw.clear()
        words = {"count": count, "connections": CONNECTIONS}
        return count / float(bench.raw.producer.call("runs_of_steps", **words))

    def ours() -> float:
        bench.ours.clear()
        bench.ours.filled(count, "five_steps")
        before = bench.ours.transactions()
        rate = emptied(bench.ours, count)
        commits.append((bench.ours.transactions() - before) / count)
        return rate

    found = bench.alternated(raw=limit, ours=ours)
    yield Figure.of(
        "steps",
        "runs/s",
        found["ours"],
        found["raw"],
        runs=count,
        transactions_per_run=rounded(median(commits)),
    )
