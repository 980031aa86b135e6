"""The benchmarks' own PostgreSQL: one server in a folder of its own, and databases that go again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from testproject.postgres.server import Server

ROOT: Final = Path(__file__).resolve().parent.parent
OPTIONS: Final[Mapping[str, str]] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
}
SERVER: Final = Server(ROOT / ".benchmarks", OPTIONS)

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Database:
    """One database of the server."""

    name: str

    @property
    def dsn(self) -> str:
        """Answer how psycopg gets there."""
        return f"host={SERVER.socket_folder} user=postgres dbname={self.name}"

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection that commits every statement."""
        return psycopg.connect(self.dsn, autocommit=True)


MAIN: Final = Database("postgres")


def postmaster() -> int:
    """Answer the process id of the server."""
    return int((SERVER.data / "postmaster.pid").read_text(encoding="ascii").split()[0])


@contextmanager
def database() -> Iterator[Database]:
    """Have an empty database inside the block."""
    made = Database(f"benchmark_{os.getpid()}_{next(_numbers)}")
    name = sql.Identifier(made.name)
    with MAIN.connect() as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            yield made
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def url(of: Database = MAIN) -> str:
    """Answer the address of a database, as ``DATABASE_URL`` takes it."""
    return SERVER.url.removesuffix(MAIN.name) + of.name
