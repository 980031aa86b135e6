"""The producer of the raw limit: ``python -m benchmarks.raw.agent``."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from benchmarks.agent import serve
from benchmarks.raw import VARIABLE, table

STEPS = 5


def connect() -> psycopg.Connection[Any]:
    """Open a connection that commits, and prepares, every statement."""
    connection = psycopg.connect(os.environ[VARIABLE], autocommit=True)
    connection.prepare_threshold = 0
    return connection


class Producer:
    """Fills the queue on one connection, and times itself."""

    def __init__(self) -> None:
        self._connection = connect()

    def setup(self) -> None:
        self._connection.execute(table.CREATE, prepare=False)

    def clear(self) -> None:
        self._connection.execute(table.CLEAR)

    def enqueue_single(self, count: int) -> float:
        """Enqueue one by one; answer the seconds."""
        self._insert(0)
        began = time.perf_counter()
        for number in range(count):
            self._insert(number)
        return time.perf_counter() - began

    def enqueue_many(self, count: int) -> float:
        """Enqueue by one INSERT of many rows; answer the seconds."""
        began = time.perf_counter()
        self._connection.execute(table.INSERT_MANY, [[_input(n) for n in range(count)]])
        return time.perf_counter() - began

    def copy(self, count: int) -> float:
        """Enqueue by COPY; answer the seconds."""
        began = time.perf_counter()
        with self._connection.transaction(), self._connection.cursor() as cursor:
            with cursor.copy(table.COPY) as copy:
                copy.write("".join(f"noop\t{_input(number)}\n" for number in range(count)))
            cursor.execute(table.TELL)
        return time.perf_counter() - began

    def fill(self, count: int, job: str) -> None:
        self.copy(count)

    def finished(self, count: int) -> None:
        """Add jobs that are done."""
        self._connection.execute(table.FINISHED, [count])

    def waiting(self, count: int) -> None:
        """Add jobs that are due."""
        self.copy(count)

    def enqueue_at(self) -> int:
        """Enqueue one job; answer when that returned, on the monotonic clock, in nanoseconds."""
        self._insert(0)
        return time.monotonic_ns()

    def runs_of_steps(self, count: int, connections: int) -> float:
        """Write the steps of so many runs, a commit each, on several connections; answer the seconds."""
        opened = [connect() for _ in range(connections)]

        def write(connection: psycopg.Connection[Any], first: int) -> None:
            for run in range(first, count, connections):
                for place in range(STEPS):
                    connection.execute(table.STEP, [run, place, f"step-{place}", "1"])

        began = time.perf_counter()
        with ThreadPoolExecutor(connections) as threads:
            list(threads.map(write, opened, range(connections)))
        seconds = time.perf_counter() - began
        for connection in opened:
            connection.close()
        return seconds

    def _insert(self, number: int) -> None:
        self._connection.execute(table.INSERT, [_input(number)])


def _input(number: int) -> str:
    return json.dumps({"n": number})


if __name__ == "__main__":
    serve(Producer())
