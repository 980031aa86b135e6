"""The producer of ours: ``python -m benchmarks.ours.agent``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import django

from benchmarks.agent import serve

if TYPE_CHECKING:
    from benchmarks.ours.jobs import Number
    from ultimate_jobs import Job

BATCH = 10_000
"""Most that one call takes."""

CLEAR = """
SELECT 'TRUNCATE ' || string_agg(format('%I', tablename), ', ')
  FROM pg_tables
 WHERE schemaname = current_schema AND tablename LIKE 'x\\_%'
"""
FINISHED = """
INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, max_attempts, run_at, state,
                    attempt, claim, result)
SELECT gen_random_uuid(), gen_random_uuid(), 'noop', 'default', 0, jsonb_build_object('n', n), 'done-' || n, 3,
       now() - interval '1 hour', 'done', 1, 1, 'null'
  FROM generate_series(1, %s) AS n
"""


class Producer:
    """Enqueues through the public interface, on Django's connection, and times itself."""

    def __init__(self) -> None:
        self._next = 0

    def setup(self) -> None:
        """Make the tables."""
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    def clear(self) -> None:
        """Empty every table of the package."""
        from django.db import connection  # noqa: TID251 - to empty and to fill

        with connection.cursor() as cursor:
            cursor.execute(CLEAR)
            cursor.execute(cursor.fetchall()[0][0])

    def enqueue_single(self, count: int, *, atomic: bool = False) -> float:
        """Enqueue one by one, each its own transaction; answer the seconds."""
        from django.db import transaction

        from benchmarks.ours.jobs import noop

        def staged(value: Number) -> None:
            with transaction.atomic():
                noop.enqueue(value)

        enqueue: Callable[[Number], object] = staged if atomic else noop.enqueue
        values = self._values(count + 1)
        enqueue(values.pop())
        began = time.perf_counter()
        for value in values:
            enqueue(value)
        return time.perf_counter() - began

    def enqueue_many(self, count: int) -> float:
        """Enqueue by one call; answer the seconds."""
        from benchmarks.ours.jobs import noop

        values = self._values(count)
        began = time.perf_counter()
        noop.enqueue_many(values)
        return time.perf_counter() - began

    def fill(self, count: int, job: str = "noop") -> None:
        """Enqueue as many as it takes."""
        from benchmarks.ours import jobs

        handle: Job[Number, object] = getattr(jobs, job)
        for start in range(0, count, BATCH):
            handle.enqueue_many(self._values(min(BATCH, count - start)))

    def finished(self, count: int) -> None:
        """Add jobs that are done."""
        from django.db import connection  # noqa: TID251 - to empty and to fill

        with connection.cursor() as cursor:
            cursor.execute(FINISHED, [count])

    def stage(self, count: int) -> int:
        """Stage jobs in one transaction; answer when its commit returned, in nanoseconds."""
        from django.db import transaction

        with transaction.atomic():
            self.fill(count)
        return time.monotonic_ns()

    def enqueue_at(self) -> int:
        """Enqueue one job; answer when that returned, on the monotonic clock, in nanoseconds."""
        from benchmarks.ours.jobs import noop

        noop.enqueue(self._values(1)[0])
        return time.monotonic_ns()

    def _values(self, count: int) -> list[Number]:
        first, self._next = self._next, self._next + count
        return [{"n": number} for number in range(first, self._next)]


if __name__ == "__main__":
    django.setup()
    producer = Producer()
    serve(
        {
            "setup": producer.setup,
            "clear": producer.clear,
            "enqueue_single": producer.enqueue_single,
            "enqueue_many": producer.enqueue_many,
            "fill": producer.fill,
            "finished": producer.finished,
            "stage": producer.stage,
            "enqueue_at": producer.enqueue_at,
        }
    )
