"""The driver of the test kit: everything on the calling thread's own connection.

``session`` is where a test's jobs run: connections with a transaction open look as if they had none
(``nested``). What production does on a second connection happens here on the only one there is.

Whether an event came before a wait or after it is decided by the numbers of transactions. A test
has one transaction for everything, so here events and snapshots get numbers of their own, larger
than any that PostgreSQL has given out, in the order in which they came about.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ultimate_jobs.core.records import Batch, Enqueued, Found
from ultimate_jobs.drivers.connections import guard, is_open
from ultimate_jobs.drivers.postgres.connection import (
    Clock,
    Database,
    Params,
    Row,
    T,
)
from ultimate_jobs.drivers.postgres.driver import PostgresDriver
from ultimate_jobs.drivers.postgres.nested import nested, undo
from ultimate_jobs.drivers.postgres.outbox import PostgresOutbox
from ultimate_jobs.drivers.postgres.queue import PostgresQueue

Enqueues: TypeAlias = Callable[[Batch], object]

_FIRST = 4_000_000_000_000_000_000
_SNAPSHOT = "pg_current_snapshot()::text"
_EVENT = "pg_current_xact_id()::text::bigint\n"
_PUBLISHES = "INSERT INTO x_job_events"


class JoinedDatabase(Database):
    """Statements on the test's own connection, whatever production would use."""

    def __init__(self, alias: str, clock: Clock) -> None:
        super().__init__(alias, clock)
        self._refuse: Callable[[], None] = _nothing
        self._nested: frozenset[str] = frozenset()
        self._order = _Order()

    @contextmanager
    def session(self) -> Iterator[None]:
        """Let the thread's connections look, inside the block, as if no transaction were open."""
        inside = [c for c in connections.all(initialized_only=True) if c.in_atomic_block]
        before = self._nested, self._refuse
        with ExitStack() as stack:
            for connection in inside:
                stack.enter_context(nested(connection, self._ask, self._order.numbered))
            self._nested = self._nested.union(connection.alias for connection in inside)
            try:
                yield
            finally:
                self._nested, self._refuse = before

    def rows(self, statement: str, params: Params, *, repeated: bool = False) -> list[Row]:
        """Run one statement and answer its rows; ``nested`` numbers those of a session."""
        if self.alias not in self._nested:
            statement = self._order.numbered(statement)
        return super().rows(statement, params, repeated=repeated)

    def in_transaction(self) -> bool:
        """Answer whether this thread has a transaction open here, the one around a test apart."""
        return _is_begun(connections[self.alias])

    def in_foreign_transaction(self) -> bool:
        """Answer whether this thread has a transaction open elsewhere, and none here."""
        return not self.in_transaction() and any(
            _is_begun(other) for other in connections.all(initialized_only=True)
        )

    def _tried(self, call: Callable[[], T]) -> T:
        return call()  # in a transaction that an error has broken nothing can be tried again

    def _ask(self) -> None:
        self._refuse()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Run the block where everything else runs."""
        yield

    def start_of_body(self, refuse: Callable[[], None]) -> None:
        """Let the connections ask ``refuse`` before they write or commit."""
        self._refuse = refuse
        for alias in connections:
            if alias not in self._nested:
                guard(connections[alias], refuse)

    def end_of_body(self) -> list[str]:
        """Roll back what the body left open and answer where; the connections stay."""
        return [c.alias for c in connections.all(initialized_only=True) if undo(c)]

    def between_passes(self) -> None:
        """Leave the connection and its query log to the test."""

    def repeat_statements(self, *, plan_once: bool) -> None:
        """Leave the connection as it is."""

    def close(self) -> None:
        """Leave the connections open."""


def _nothing() -> None:
    pass


def _is_begun(connection: BaseDatabaseWrapper) -> bool:
    """Answer whether a transaction is open that is not the test's."""
    blocks = connection.atomic_blocks
    tests = [block for block in blocks if getattr(block, "_from_testcase", False)]
    return is_open(connection) and (not blocks or len(tests) < len(blocks))


class _Order:
    """Puts numbers of its own into statements that ask for the number of a transaction."""

    def __init__(self) -> None:
        self._numbers = itertools.count(_FIRST)

    def numbered(self, statement: str) -> str:
        """Answer the statement with the next number in the place of PostgreSQL's."""
        number = next(self._numbers)
        text = statement.replace(_SNAPSHOT, f"'{number}:{number}:'")
        return text.replace(_EVENT, f"{number}\n") if _PUBLISHES in text else text


class _JoinedOutbox(PostgresOutbox):
    def __init__(self, database: Database, enqueued: Enqueues) -> None:
        super().__init__(database)
        self._enqueued = enqueued

    def stage(self, batch: Batch) -> list[Enqueued]:
        self._enqueued(batch)
        return super().stage(batch)


class _JoinedQueue(PostgresQueue):
    def __init__(self, database: Database, enqueued: Enqueues) -> None:
        super().__init__(database, PostgresOutbox(database))
        self._enqueued = enqueued

    def enqueue(self, batch: Batch) -> list[Enqueued]:
        self._enqueued(batch)
        return super().enqueue(batch)

    def find(self, job: UUID) -> Found | None:
        found = super().find(job)
        if found is None or found.has_ended:
            return found
        return replace(found, committed=False)  # whoever waits for it keeps it from being run


class JoinedDriver(PostgresDriver):
    """The stores on the test's own connection, by a clock of the test's own.

    Args:
        alias: the database.
        clock: the time that statements go by.
        enqueued: told of every batch before it is written.

    """

    def __init__(self, alias: str, clock: Clock, enqueued: Enqueues) -> None:
        joined = JoinedDatabase(alias, clock)
        super().__init__(alias, database=joined)
        self._joined = joined
        self._outbox = _JoinedOutbox(joined, enqueued)
        self._queue = _JoinedQueue(joined, enqueued)

    def session(self) -> AbstractContextManager[None]:
        """Let jobs run inside the block as if no transaction were open."""
        return self._joined.session()
