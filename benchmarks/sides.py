"""The two that are compared, ours and the raw limit: each a database, a producer and workers."""

from __future__ import annotations

import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Self

import psycopg

from benchmarks import raw, ticks
from benchmarks.agent import Agent
from benchmarks.processes import Process, wait_for
from benchmarks.raw import table
from benchmarks.server import MAIN, ROOT, SERVER, Database, database

ON = "1"
TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"
_numbers = count(1)


class Site:
    """The folder that children start in: the package that is measured, and these benchmarks."""

    def __init__(self, folder: Path, checkout: Path = ROOT) -> None:
        self.folder = folder
        (folder / "ultimate_jobs").symlink_to(checkout.resolve() / "ultimate_jobs")
        for ours in ("benchmarks", "testproject"):
            (folder / ours).symlink_to(ROOT / ours)

    @classmethod
    @contextmanager
    def made(cls, checkout: Path = ROOT) -> Iterator[Self]:
        """Have such a folder inside the block."""
        with tempfile.TemporaryDirectory(prefix="ultimate-jobs-", dir=_memory()) as folder:
            yield cls(Path(folder), checkout)


class Side(ABC):
    """One of the two. It is made empty, and goes when its block ends."""

    unfinished: str
    """SQL that answers whether a job is still to be run, or to be settled."""

    def __init__(self, site: Site, where: Database, stack: ExitStack) -> None:
        self.database = where
        self.ticks = site.folder / f"ticks-{next(_numbers)}"
        self.ticks.mkdir()
        self._site = site
        self._stack = stack
        self.producer.call("setup")

    @classmethod
    @contextmanager
    def made(cls, site: Site) -> Iterator[Self]:
        """Have a side with a database of its own inside the block."""
        with ExitStack() as stack:
            yield cls(site, stack.enter_context(database()), stack)

    @cached_property
    def producer(self) -> Agent:
        """Answer the child that enqueues."""
        return self.another_producer()

    def another_producer(self, **environment: str) -> Agent:
        """Start one more child that enqueues, with more in its environment."""
        started = Agent(
            self._producer_module, folder=self._site.folder, environment=self._with(environment)
        )
        self._stack.callback(started.close)
        return started

    @contextmanager
    def worker(self, **environment: str) -> Iterator[Process]:
        """Run a worker inside the block."""
        with self._running(*self._worker_words, **environment) as process:
            yield process

    @contextmanager
    def idle_worker(self, **environment: str) -> Iterator[Process]:
        """Run a worker that has started up, and has been told of work before."""
        with self.worker(**environment) as process:
            process.wait_until_said(self._ready_word)
            for _ in range(3):
                self.run_one()
            yield process

    def run_one(self, **words: bool) -> float:
        """Enqueue one job; answer the milliseconds from its commit to its body."""
        before = self.ticked().count
        committed = int(self.producer.call("enqueue_at", **words))
        wait_for("a body", lambda: self.ticked().count > before)
        return (self.ticked().last - committed) / 1e6

    def clear(self) -> None:
        """Forget all jobs and all bodies; no worker may run."""
        self.producer.call("clear")
        self.forget_bodies()

    def forget_bodies(self) -> None:
        """Count bodies from none again; no worker may run."""
        ticks.clear(self.ticks)

    def filled(self, count: int, job: str = "noop") -> None:
        """Enqueue jobs, and have the tables as the server likes them."""
        self.producer.call("fill", count=count, job=job)
        self.vacuumed()

    def vacuumed(self) -> None:
        """Have the tables as the server likes them."""
        with self.database.connect() as connection:
            connection.execute("VACUUM ANALYZE")

    def wait_until_settled(self) -> int:
        """Wait until nothing is unfinished; answer when, in nanoseconds of the monotonic clock."""
        with self.database.connect() as connection, connection.transaction():
            wait_for("every settle", lambda: not _answer(connection, self.unfinished))
        return time.monotonic_ns()

    def transactions(self) -> int:
        """Answer how many the database has seen; those of the last second may be missing."""
        with MAIN.connect() as connection:
            return int(_answer(connection, TRANSACTIONS, self.database.name))

    def ticked(self) -> ticks.Ticks:
        """Answer how many bodies ran since the last ``clear``."""
        return ticks.read(self.ticks)

    @abstractmethod
    def _variables(self) -> dict[str, str]: ...

    @property
    @abstractmethod
    def _producer_module(self) -> str: ...

    @property
    @abstractmethod
    def _worker_words(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def _ready_word(self) -> str: ...

    @contextmanager
    def _running(self, *words: str, **environment: str) -> Iterator[Process]:
        process = Process(
            *words,
            folder=self._site.folder,
            environment=self._with(environment),
            log=self._site.folder / f"log-{next(_numbers)}",
        )
        try:
            yield process
        finally:
            process.stop()

    def _with(self, environment: dict[str, str]) -> dict[str, str]:
        paths = {"PYTHONPATH": str(self._site.folder), ticks.VARIABLE: str(self.ticks)}
        return {**os.environ, **paths, **self._variables(), **environment}


class Raw(Side):
    """PostgreSQL and psycopg alone."""

    unfinished = table.UNFINISHED
    _producer_module = "benchmarks.raw.agent"
    _worker_words = ("-m", "benchmarks.raw.worker")
    _ready_word = "listening"

    def _variables(self) -> dict[str, str]:
        return {raw.VARIABLE: self.database.dsn}


class Ours(Side):
    """A Django project with this package, its worker and its relay as they come."""

    unfinished = (
        "SELECT EXISTS (SELECT 1 FROM x_jobs"
        " WHERE state IN ('delayed', 'ready', 'running', 'suspended'))"
    )
    staged = "SELECT EXISTS (SELECT 1 FROM x_outbox WHERE published_at IS NULL)"
    _producer_module = "benchmarks.ours.agent"
    _worker_words = ("-m", "django", "jobs_worker")
    _ready_word = "jobs.wake.live"

    def _variables(self) -> dict[str, str]:
        return {
            "DJANGO_SETTINGS_MODULE": "benchmarks.ours.settings",
            "BENCHMARK_HOST": str(SERVER.socket_folder),
            "BENCHMARK_DATABASE": self.database.name,
        }

    def wait_until_relayed(self) -> None:
        """Wait until nothing is staged."""
        with self.database.connect() as connection, connection.transaction():
            wait_for("the relay", lambda: not _answer(connection, self.staged), every=0.002)

    @contextmanager
    def relay(self) -> Iterator[Process]:
        """Run a relay that has started up inside the block."""
        with self._running("-m", "django", "jobs_relay") as process:
            process.wait_until_said(self._ready_word)
            yield process


def _answer(connection: psycopg.Connection[Any], question: str, *words: str) -> Any:
    ((answer,),) = connection.execute(question.encode(), words).fetchall()
    return answer


def _memory() -> str | None:
    """Answer a folder that is in memory, where there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a private folder in it
