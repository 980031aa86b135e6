"""What one job costs: processor time of the client and of the server, commits, and log. Only run when named.

These depend less than rates on what else the machine does. A capacity is computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.processes import cpu_seconds, cpu_seconds_of_all
from benchmarks.scenarios.drain import running
from benchmarks.server import MAIN, postmaster

SINGLE: Final = 2_000
MANY: Final = 10_000
JOBS: Final = 20_000
RUNS: Final = 1_000
WAL: Final = "SELECT (pg_current_wal_lsn() - '0/0')::bigint"
UNITS: Final = {
    "client": "CPU µs/job",
    "server": "CPU µs/job",
    "commits": "commits/job",
    "log": "bytes/job",
}


@dataclass(frozen=True, slots=True)
class Spent:
    """What has been spent so far, or for one job."""

    client: float
    server: float
    commits: float
    log: float

    def less(self, other: Spent, count: int) -> Spent:
        """Answer what was spent since, for each of ``count``."""
        return Spent(
            (self.client - other.client) / count,
            (self.server - other.server) / count,
            (self.commits - other.commits) / count,
            (self.log - other.log) / count,
        )


def cost(bench: Bench) -> Iterator[Figure]:
    """Take the costs of enqueues, of jobs that do nothing, and of runs of five steps."""
    for what, (count, measure) in _measures(bench).items():
        found = []
        for number in range(bench.repeat):
            bench.say(f"{what}, {number + 1} of {bench.repeat}")
            found.append(measure())
        for kind, unit in UNITS.items():
            values = [getattr(spent, kind) for spent in found]
            yield Figure.of("cost", unit, values, variant=f"{what}, {kind}", jobs=count)


def _measures(bench: Bench) -> Mapping[str, tuple[int, Callable[[], Spent]]]:
    single, many, jobs, runs = map(bench.scaled, (SINGLE, MANY, JOBS, RUNS))

    def called(call: str, count: int, **words: bool) -> Callable[[], Spent]:
        def measured() -> Spent:
            bench.ours.clear()
            before = _so_far(bench, bench.ours.producer.pid)
            bench.ours.producer.call(call, count=count, **words)
            return _so_far(bench, bench.ours.producer.pid).less(before, count)

        return measured

    def beyond_its_start(spent: Callable[[int], Spent], count: int) -> Callable[[], Spent]:
        """Compare a process that does little with one that does much: both start and end."""
        few = max(1, count // 10)
        return lambda: spent(few + count).less(spent(few), count)

    return {
        "enqueue": (single, called("enqueue_single", single)),
        "enqueue in a transaction": (single, called("enqueue_single", single, atomic=True)),
        "enqueue_many": (many, called("enqueue_many", many)),
        "relay": (jobs, beyond_its_start(partial(_relayed, bench), jobs)),
        "run": (jobs, beyond_its_start(partial(_ran, bench, "noop"), jobs)),
        "run of five steps": (runs, beyond_its_start(partial(_ran, bench, "five_steps"), runs)),
    }


def _relayed(bench: Bench, count: int) -> Spent:
    bench.ours.clear()
    bench.ours.producer.call("stage", count=count)
    before = _so_far(bench)
    with bench.ours.relay() as process:
        bench.ours.wait_until_relayed()
        client = process.cpu_seconds()
    return replace(_so_far(bench).less(before, 1), client=client * 1e6)


def _ran(bench: Bench, job: str, count: int) -> Spent:
    bench.ours.clear()
    bench.ours.filled(count, job)
    before = _so_far(bench)
    with running(bench.ours, count) as (process,):
        bench.ours.wait_until_settled()
        client = process.cpu_seconds()
    return replace(_so_far(bench).less(before, 1), client=client * 1e6)


def _so_far(bench: Bench, client: int | None = None) -> Spent:
    with MAIN.connect() as connection:
        ((log,),) = connection.execute(WAL).fetchall()
    return Spent(
        0.0 if client is None else cpu_seconds(client) * 1e6,
        cpu_seconds_of_all(postmaster()) * 1e6,
        bench.ours.transactions(),
        log,
    )
