"""Getting jobs into the queue: one by one, many at once, through the outbox."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks.agent import Agent
from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.sides import ON

RATE = "jobs/s"
SLICES = 10
"""Parts of a measurement, taken in turn with those of what it is held against."""


def enqueue_single(bench: Bench) -> Iterator[Figure]:
    """Enqueue one by one, each its own transaction, on three kinds of connections."""
    count = bench.scaled(100)
    prepared = bench.ours.another_producer(BENCHMARK_PREPARED=ON)

    def rate(producer: Agent, **words: bool) -> Callable[[], float]:
        return lambda: count / float(producer.call("enqueue_single", count=count, **words))

    bench.raw.clear()
    bench.ours.clear()
    found = bench.alternated(
        SLICES,
        raw=rate(bench.raw.producer),
        default=rate(bench.ours.producer),
        prepared=rate(prepared),
        atomic=rate(bench.ours.producer, atomic=True),
    )
    for variant in ("default", "prepared", "atomic"):
        yield Figure.of(
            "enqueue_single",
            RATE,
            found[variant],
            found["raw"],
            variant=variant,
            jobs=count * SLICES,
        )


def enqueue_many(bench: Bench) -> Iterator[Figure]:
    """Enqueue ten thousand by one call."""
    count = bench.scaled(10_000)

    def rate(producer: Agent, call: str = "enqueue_many") -> Callable[[], float]:
        return lambda: count / float(producer.call(call, count=count))

    bench.raw.clear()
    bench.ours.clear()
    ours, insert = rate(bench.ours.producer), rate(bench.raw.producer)
    copy = rate(bench.raw.producer, "copy")
    for warm_up in (ours, insert, copy):
        warm_up()
    found = bench.alternated(2, insert=insert, ours=ours, copy=copy)
    yield Figure.of("enqueue_many", RATE, found["ours"], found["insert"], jobs=count)
    yield Figure.of(
        "enqueue_many", RATE, found["ours"], found["copy"], variant="beside COPY", jobs=count
    )


def relay(bench: Bench) -> Iterator[Figure]:
    """Relay ten thousand staged rows, from their commit until none is left."""
    count = bench.scaled(10_000)
    bench.raw.clear()
    bench.ours.clear()

    def relayed() -> float:
        committed = int(bench.ours.producer.call("stage", count=count))
        bench.ours.wait_until_relayed()
        return count / (time.monotonic_ns() - committed) * 1e9

    with bench.ours.relay():
        found = bench.alternated(
            insert=lambda: count / float(bench.raw.producer.call("enqueue_many", count=count)),
            ours=relayed,
        )
    yield Figure.of("relay", RATE, found["ours"], found["insert"], rows=count)
