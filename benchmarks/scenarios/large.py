"""What a very large table changes, and what a million jobs leave behind. Only run when named.

Every figure of ``growth_5m`` is that of a large table; its limit is the same work on a table that
holds nothing else, in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import median
from typing import Final

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.processes import Process, wait_for
from benchmarks.scenarios.drain import JOBS, RATE, begun
from benchmarks.sides import Ours

FINISHED: Final = 5_000_000
WAITING: Final = 1_000_000
CLAIMS: Final = 100
JOBS_OF_A_CLAIM: Final = 8
LISTS: Final = 10
SINGLE: Final = 300
EXPIRED: Final = 20_000

THROUGH: Final = 1_000_000
WAVES: Final = 20
SIZES: Final = """
SELECT pg_table_size('x_jobs') / 1e6, pg_indexes_size('x_jobs') / 1e6
"""


def growth_5m(bench: Bench) -> Iterator[Figure]:
    """Work on an empty table, on one with millions of finished jobs, on one with a million waiting."""
    empty, finished, waiting = (bench.side(Ours, number) for number in range(3))
    rows = {"finished": bench.scaled(FINISHED), "waiting": bench.scaled(WAITING)}
    empty.clear()
    for side, (kind, count) in zip((finished, waiting), rows.items(), strict=True):
        bench.say(f"fill with {count:,} {kind}")
        side.clear()
        side.producer.call(kind, count=count)
        side.vacuumed()
    sides = {"empty": empty, "finished": finished, "waiting": waiting}
    for what, (unit, measure) in _measures(bench).items():
        found = bench.alternated(**{name: partial(measure, side) for name, side in sides.items()})
        for kind, count in rows.items():
            yield Figure.of(
                "growth_5m",
                unit,
                found[kind],
                found["empty"],
                variant=f"{what}, {kind}",
                rows=count,
            )


def _measures(bench: Bench) -> Mapping[str, tuple[str, Callable[[Ours], float]]]:
    jobs, claims, single = bench.scaled(JOBS), bench.scaled(CLAIMS), bench.scaled(SINGLE)

    def drain(side: Ours) -> float:
        side.forget_bodies()
        side.producer.call("waiting", count=jobs)
        return begun(side, jobs)

    def claim(side: Ours) -> float:
        side.producer.call("waiting", count=claims * JOBS_OF_A_CLAIM)
        return float(median(side.producer.call("claims", count=claims)))

    def enqueue(side: Ours) -> float:
        return single / float(side.producer.call("enqueue_single", count=single))

    def enqueue_many(side: Ours) -> float:
        return jobs / 2 / float(side.producer.call("enqueue_many", count=jobs // 2))

    def list_(side: Ours) -> float:
        return float(median(side.producer.call("lists", count=LISTS)))

    def purge(side: Ours) -> float:
        expired = bench.scaled(EXPIRED)
        (milliseconds,) = side.producer.call("purge", count=expired)
        return expired / float(milliseconds) * 1_000

    return {
        "enqueue_single": (RATE, enqueue),
        "enqueue_many": (RATE, enqueue_many),
        "list": ("ms", list_),
        "purge": ("rows/s", purge),
        "claim": ("ms", claim),
        "drain": (RATE, drain),
    }


def bloat(bench: Bench) -> Iterator[Figure]:
    """Run a million jobs, and hold the size of their table against that of one written anew."""
    side, wave = bench.side(Ours, 1), bench.scaled(THROUGH // WAVES)
    side.clear()
    with side.worker() as process:
        for number in range(1, WAVES + 1):
            bench.say(f"{wave * number:,} jobs")
            side.producer.call("fill", count=wave)
            ran = partial(_has_run, side, process, wave * number)
            wait_for("every body", ran, every=0.1)
        side.wait_until_settled()
    with side.database.connect() as connection:
        ((table, indexes),) = connection.execute(SIZES).fetchall()
        bench.say("writing the table anew")
        connection.execute("VACUUM FULL x_jobs")
        ((table_anew, indexes_anew),) = connection.execute(SIZES).fetchall()
    jobs = wave * WAVES
    yield Figure.of("bloat", "MB", [table], [table_anew], variant="table", jobs=jobs)
    yield Figure.of("bloat", "MB", [indexes], [indexes_anew], variant="indexes", jobs=jobs)


def _has_run(side: Ours, process: Process, count: int) -> bool:
    return process.lives and side.ticked().count >= count
