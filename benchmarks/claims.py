"""What a claim costs with millions of rows in the table that it must not take.

    python -m benchmarks claims --scale 0.1

Before a thousand jobs that are due lie, at scale 1: a million rows that are due next month, a million
that are done, 200,000 that are dead; 100,000 that are due in a paused queue, 100,000 whose key has no
slot left, and 100,000 of a name that no worker knows. One worker with four bodies runs the thousand.
Then a million rows are deleted, while an old snapshot keeps their remains, and it runs a thousand more.
Printed are milliseconds of the claims and seconds of the work.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections  # noqa: TID251 - to measure statements and to hold a snapshot

from tests.builders import Declarations, claim, sql
from tests.postgres.test_plans import CLAIM, explained, indexes, scanned
from tests.worker.running import a_worker_process
from ultimate_jobs import Concurrency, Job
from ultimate_jobs.core.keys import lease_key
from ultimate_jobs.drivers.postgres.sql import CLAIM as STATEMENT

IN_VAIN = 200
"""Claims of an idle worker that are measured."""

DUE = 1_000
KNOWN, CAPPED, UNKNOWN = "benchmarks.known", "benchmarks.capped", "benchmarks.unknown"
KEY = lease_key(CAPPED, "full")
QUEUES = ("default", "paused")

FILL = """
INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, lease_key, max_attempts,
                    run_at, state, attempt, claim)
SELECT gen_random_uuid(), gen_random_uuid(), %s, %s, 0,
       jsonb_build_object('key', n::text, 'org', 'full', 'load', repeat(md5(n::text), 6)),
       %s || n, %s, 3, now() + %s::interval + n * interval '1 millisecond', %s, 0, 0
  FROM generate_series(1, %s) AS n
"""

PILES: tuple[tuple[str, str, str | None, str, str, int], ...] = (
    (KNOWN, "default", None, "30 days", "delayed", 1_000_000),
    (KNOWN, "default", None, "-30 days", "done", 1_000_000),
    (KNOWN, "default", None, "-30 days", "dead", 200_000),
    (KNOWN, "paused", None, "-3 days", "ready", 100_000),
    (CAPPED, "default", KEY, "-3 days", "ready", 100_000),
    (UNKNOWN, "default", None, "-3 days", "ready", 100_000),
)
"""Name, queue, key of a slot, when they are due, state, and how many rows of each lie in the way."""


def main(*words: str) -> Iterator[str]:
    """Fill the table, and say what claims cost at each stage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks claims")
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows in the way")
    scale = parser.parse_args(words).scale
    with Declarations() as declare:
        known = declare(name=KNOWN)
        capped = declare(name=CAPPED, concurrency=Concurrency(key=lambda value: value.org, limit=1))
        rows = _in_the_way(scale)
        yield f"{rows:,} rows in the way"
        yield from _work("behind them", known, capped)
        yield _idle()
        yield _plan()
        with _old_snapshot():
            gone = sql("WITH gone AS (DELETE FROM x_jobs WHERE state IN ('delayed', 'done')"
                       " RETURNING 1) SELECT count(*) FROM gone")[0][0]  # fmt: skip
            yield f"{gone:,} of them deleted, which an old snapshot still sees"
            yield from _work("behind the remains", known, capped)
            yield _idle()


def _in_the_way(scale: float) -> int:
    counts = [round(pile[-1] * scale) for pile in PILES]
    for number, ((*pile, _), count) in enumerate(zip(PILES, counts, strict=True)):
        name, queue, key, due_in, state = pile
        sql(FILL, [name, queue, f"pile-{number}-", key, due_in, state, count])
    sql("INSERT INTO x_job_pauses (kind, name, paused_at) VALUES ('queue', 'paused', now())")
    sql(
        "INSERT INTO x_job_leases (lease_key, slot, job_id, run_id, claim, worker, expires_at)"
        " VALUES (%s, 1, gen_random_uuid(), gen_random_uuid(), 1, 'benchmarks', 'infinity')",
        [KEY],
    )
    sql("VACUUM ANALYZE x_jobs")
    return sum(counts)


def _work(where: str, *handles: Job[Any, Any]) -> Iterator[str]:
    """Let one worker run what is due, and say how long that and its claims took."""
    sql(FILL, [KNOWN, "default", where, None, "-1 hour", "ready", DUE])
    worker = a_worker_process(*handles, concurrency=4, queues=QUEUES)
    took: list[float] = []
    with _timed("Take due rows for a worker", took):
        began = time.perf_counter()
        worker.run(until_idle=True)
        seconds = time.perf_counter() - began
    done = worker.stats.processed
    yield f"{done:,} jobs {where}: {seconds:.1f} s, {len(took):,} claims {_spread(took)}"


def _idle() -> str:
    """Measure claims that find nothing."""
    took = []
    for _ in range(IN_VAIN):
        began = time.perf_counter()
        found = claim(KNOWN, CAPPED, queues=QUEUES, room=4)
        took.append((time.perf_counter() - began) * 1_000)
        if found.jobs:
            raise SystemExit("an idle claim found something")
    return f"claims that find nothing: {_spread(took)}"


def _plan() -> str:
    parameters = CLAIM | {"queues": list(QUEUES), "names": [KNOWN, CAPPED], "shares": [4, 4]}
    plan = explained(STATEMENT, parameters)
    whole = scanned(plan) & {"x_jobs"}
    return f"read from end to end: {', '.join(whole) or 'nothing'}; by {', '.join(sorted(indexes(plan)))}"


@contextmanager
def _timed(word: str, took: list[float]) -> Iterator[None]:
    """Note the milliseconds of every statement of this thread with these words in it."""

    def note(execute: Callable[..., Any], text: str, *rest: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(text, *rest)
        finally:
            if word in text:
                took.append((time.perf_counter() - began) * 1_000)

    with connections["default"].execute_wrapper(note):
        yield


@contextmanager
def _old_snapshot() -> Iterator[None]:
    """Keep the remains of what is deleted inside the block."""
    old = connections["default"].copy()
    try:
        with old.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT count(*) FROM x_job_workers")
            yield
            cursor.execute("ROLLBACK")
    finally:
        old.close()


def _spread(took: list[float]) -> str:
    cuts = statistics.quantiles(took, n=20, method="inclusive")
    return f"p50 {cuts[9]:.1f} ms, p95 {cuts[18]:.1f} ms, longest {max(took):.1f} ms"
