"""What enqueues ours, through the public interface and on Django's connection."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from django.core.management import call_command
from django.db import connection, transaction  # noqa: TID251 - to empty and to fill

from benchmarks.ours import jobs
from benchmarks.ours.jobs import Number, noop
from benchmarks.ours.operator import Operator
from benchmarks.ours.rows import AN_ID
from ultimate_jobs import Job

_NUMBERS = 10_000_000
"""How many inputs a producer has to itself: a key that another one used would be a duplicate."""

BATCH = 10_000
"""Most that one call takes."""

CLEAR = """
SELECT 'TRUNCATE ' || string_agg(format('%I', tablename), ', ')
  FROM pg_tables
 WHERE schemaname = current_schema AND tablename LIKE 'x\\_%'
"""
FINISHED = f"""
INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, max_attempts, run_at, state,
                    attempt, claim, result)
SELECT {AN_ID}, {AN_ID}, 'noop', 'default', 0, jsonb_build_object('n', n), 'done-' || n, 3,
       now() - interval '1 hour', 'done', 1, 1, 'null'
  FROM generate_series(1, %s) AS n
"""  # noqa: S608 - constants
WAITING = f"""
INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, max_attempts, run_at, state)
SELECT {AN_ID}, {AN_ID}, %s, 'default', 0, jsonb_build_object('n', n), 'waits-' || n, 3,
       now(), 'ready'
  FROM generate_series(%s, %s) AS n
"""  # noqa: S608 - constants


class Producer(Operator):
    """Enqueues, and times itself in seconds."""

    def __init__(self) -> None:
        self._next = os.getpid() * _NUMBERS

    def setup(self) -> None:
        """Make the tables."""
        call_command("migrate", verbosity=0)

    def clear(self) -> None:
        """Empty every table of the package."""
        with connection.cursor() as cursor:
            cursor.execute(CLEAR)
            cursor.execute(cursor.fetchall()[0][0])

    def enqueue_single(self, count: int, *, atomic: bool = False) -> float:
        """Enqueue one by one, each its own transaction."""
        enqueue: Callable[[Number], object] = _staged if atomic else noop.enqueue
        values = self._values(count + 1)
        enqueue(values.pop())
        began = time.perf_counter()
        for value in values:
            enqueue(value)
        return time.perf_counter() - began

    def enqueue_many(self, count: int) -> float:
        """Enqueue by one call."""
        values = self._values(count)
        began = time.perf_counter()
        noop.enqueue_many(values)
        return time.perf_counter() - began

    def fill(self, count: int, job: str = "noop") -> None:
        """Enqueue as many as it takes."""
        handle: Job[Number, object] = getattr(jobs, job)
        for start in range(0, count, BATCH):
            handle.enqueue_many(self._values(min(BATCH, count - start)))

    def finished(self, count: int) -> None:
        """Add jobs that are done."""
        with connection.cursor() as cursor:
            cursor.execute(FINISHED, [count])

    def waiting(self, count: int, job: str = "noop") -> None:
        """Add jobs that are due, and tell nobody."""
        first, self._next = self._next, self._next + count
        with connection.cursor() as cursor:
            cursor.execute(WAITING, [job, first, self._next - 1])

    def stage(self, count: int) -> int:
        """Stage jobs in one transaction; answer when its commit returned, in nanoseconds."""
        with transaction.atomic():
            self.fill(count)
        return time.monotonic_ns()

    def enqueue_at(self, *, staged: bool = False) -> int:
        """Enqueue one job; answer when that returned, on the monotonic clock, in nanoseconds."""
        (value,) = self._values(1)
        if staged:
            _staged(value)
        else:
            noop.enqueue(value)
        return time.monotonic_ns()

    def _values(self, count: int) -> list[Number]:
        first, self._next = self._next, self._next + count
        return [{"n": number} for number in range(first, self._next)]


def _staged(value: Number) -> None:
    with transaction.atomic():
        noop.enqueue(value)
