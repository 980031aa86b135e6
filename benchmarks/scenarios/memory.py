"""What a worker process keeps of the jobs that it has run, with debugging on.

One body in ten looks at a row through the ORM, which debugging would remember.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.processes import Process, wait_for
from benchmarks.sides import ON

FIRST: Final = 20_000
MORE: Final = (60_000, 60_000, 60_000)
LOOKS_IN: Final = 10


def memory(bench: Bench) -> Iterator[Figure]:
    """Run two hundred thousand; the limit is what the same process held after the first tenth."""
    bench.ours.clear()
    with bench.ours.worker(BENCHMARK_DEBUG=ON) as process:
        before = _resident_after(bench, process, FIRST)
        after = [_resident_after(bench, process, count) for count in MORE]
        yield Figure.of(
            "memory",
            "MB resident",
            after,
            [before],
            jobs=bench.ours.ticked().count,
            debug=True,
            open_files=process.open_files(),
            threads=process.threads(),
        )


def _resident_after(bench: Bench, process: Process, count: int) -> float:
    side = bench.ours
    looks = bench.scaled(count // LOOKS_IN)
    jobs = {"look": looks, "noop": bench.scaled(count) - looks}
    expected = side.ticked().count + sum(jobs.values()) + 1
    bench.say(f"to {expected:,} jobs")
    for job, number in jobs.items():
        side.producer.call("waiting", count=number, job=job)
    side.producer.call("enqueue_at")  # it tells the worker
    wait_for("every body", lambda: process.lives and side.ticked().count >= expected, every=0.05)
    return process.resident_mb()
