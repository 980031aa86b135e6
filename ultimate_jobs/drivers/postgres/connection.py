"""The one place where a statement is executed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import Enum, auto
from functools import lru_cache
from threading import local
from typing import Any, Self, TypeVar, cast
from weakref import WeakKeyDictionary

import psycopg
from django.db import (
    DEFAULT_DB_ALIAS,
    InterfaceError,
    OperationalError,
    connections,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from ultimate_jobs.conf import get_settings
from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.drivers.connections import (
    close_all,
    forget_queries,
    guard_all,
    is_of_a_test_case,
    is_open,
    is_open_elsewhere,
    open_blocks,
    tidy_up,
)


class _Plans(Enum):
    """What becomes of the server's work on the text of a statement."""

    ANEW = auto()
    SOON = auto()
    KEPT = auto()
    ONCE = auto()


class _Thread(local):
    plans: _Plans = _Plans.ANEW


T = TypeVar("T")
Clock = Callable[[], datetime | None]
"""Answers the time that statements go by; ``None``: the database's own."""

Row = tuple[Any, ...]
Params = Mapping[str, object]

_RETRY_AT_ONCE = frozenset({"40001", "40P01"})
"""Serialization failure and deadlock: the statement was undone, and may simply be run again."""

_TRIES = 5

_MAX_APPLICATION_NAME = 50
"""Characters of a name that leave room for a suffix; the server cuts at 63."""


class Database:
    """Statements on the calling thread's Django connection to one database.

    Parameters travel apart from the statement's text, so that no payload appears in the server's
    list of running statements, whatever the project's cursor options are. Django's guards stay:
    the broken-transaction check, its error classes, its query log and ``assertNumQueries``.
    """

    def __init__(self, alias: str = DEFAULT_DB_ALIAS, clock: Clock = lambda: None) -> None:
        self.alias = alias
        self._clock = clock
        self._thread = _Thread()

    def rows(self, statement: str, params: Params, *, repeated: bool = False) -> list[Row]:
        """Run one statement and answer its rows; ``now`` is among its parameters.

        Outside a transaction, a deadlock or serialization failure is tried again. ``repeated`` says
        that applications run the statement often: on their connections too it is prepared, from
        the third time on, while it comes more than once a second.

        Raises:
            Unreachable: outside a transaction, the connection is gone.
            django.db.Error: whatever else the database answered.

        """
        plans, given = self._thread.plans, {**params, "now": self._clock()}
        if repeated and plans is not _Plans.ONCE and get_settings().prepared_statements:
            plans = _Plans.SOON
        connection = connections[self.alias]
        if is_open(connection):
            return run(connection, statement, given, plans)
        return self._tried(lambda: run(connection, statement, given, plans))

    def transact(self, work: Callable[[], T]) -> T:
        """Run ``work`` in one transaction, or in a savepoint of the open one.

        Raises:
            Unreachable, django.db.Error: as ``rows``.

        """

        def inside() -> T:
            with transaction.atomic(using=self.alias):
                return work()

        return inside() if self.in_transaction() else self._tried(inside)

    def in_transaction(self) -> bool:
        """Answer whether this thread has a transaction open here."""
        return is_open(connections[self.alias])

    def in_foreign_transaction(self) -> bool:
        """Answer whether this thread has a transaction open elsewhere, and none here."""
        return is_open_elsewhere(self.alias) and not self.in_transaction()

    def in_test_transaction(self) -> bool:
        """Answer whether Django's ``TestCase`` opened this thread's transaction."""
        return is_of_a_test_case(connections[self.alias])

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Run the block on a second connection, outside whatever this thread has open."""
        ours, plans = connections[self.alias], self._thread.plans
        second = ours.copy()
        connections[self.alias], self._thread.plans = second, _Plans.ANEW
        try:
            yield
        finally:
            connections[self.alias], self._thread.plans = ours, plans
            second.close()

    def transaction_depth(self) -> int:
        """Answer how many transaction blocks this thread has open, on any database."""
        return open_blocks()

    def start_of_body(self, refuse: Callable[[], None]) -> None:
        """Let every connection of the thread ask ``refuse`` before it writes or commits."""
        guard_all(refuse)

    def end_of_body(self) -> list[str]:
        """Roll back what the thread left open and answer where; close what is broken or too old."""
        return tidy_up()

    def between_passes(self) -> None:
        """Forget the query log, and close the connection if an error broke it."""
        forget_queries(self.alias)

    def repeat_statements(self, *, plan_once: bool) -> None:
        """Prepare statements on this thread's connection until ``close``.

        A connection through a pooler is left as it is. ``plan_once`` also plans each of them once
        for all parameters: for a thread that runs no other statements than ours. While statements
        come more than once a second, plans are made anew: after a second in which they answered
        hundreds of rows, else after ten.
        """
        self._thread.plans = _Plans.ONCE if plan_once else _Plans.KEPT

    def close(self) -> None:
        """Close the thread's connections."""
        if self._thread.plans is _Plans.ONCE:
            _plan_as_usual(connections[self.alias])
        self._thread.plans = _Plans.ANEW
        close_all()

    def _tried(self, call: Callable[[], T]) -> T:
        for _ in range(_TRIES - 1):
            try:
                return self._reached(call)
            except OperationalError as error:
                if sqlstate(error) not in _RETRY_AT_ONCE:
                    raise
        return self._reached(call)

    def _reached(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except (OperationalError, InterfaceError) as error:
            connection = connections[self.alias]
            if not _is_gone(connection):
                raise
            connection.close()
            raise Unreachable(type(error).__name__) from error


def dedicated(alias: str, *, suffix: str, options: Params) -> BaseDatabaseWrapper:
    """Build a closed connection like an alias's own: in no pool, committing by itself.

    Its application name ends with ``suffix``. What the project says in ``OPTIONS`` comes before
    ``options``.
    """
    connection = connections[alias].copy()
    declared = connection.settings_dict["OPTIONS"]
    declared.pop("pool", None)
    name = str(declared.get("application_name") or "ultimate_jobs")
    declared["application_name"] = name[:_MAX_APPLICATION_NAME] + suffix
    connection.settings_dict.update(AUTOCOMMIT=True, OPTIONS={**options, **declared})
    return connection


def sqlstate(error: BaseException) -> str | None:
    """Answer PostgreSQL's code for an error that Django wrapped."""
    return getattr(error.__cause__, "sqlstate", None)


def run(
    connection: BaseDatabaseWrapper,
    statement: str,
    params: Params,
    plans: _Plans = _Plans.ANEW,
) -> list[Row]:
    """Run one statement on a connection and answer its rows."""
    if connection.connection is None:
        connection.ensure_connection()
    connection.validate_thread_sharing()
    keeps = plans is not _Plans.ANEW and _keeps_plans(connection, plans)
    raw: Any = (_PreparingCursor if keeps else _Cursor)(connection.connection)
    cursor = (
        connection.make_debug_cursor(raw)
        if connection.queries_logged
        else connection.make_cursor(raw)
    )
    with cursor:
        cursor.execute(statement, cast("dict[str, str]", params))  # any type psycopg can adapt
        rows = cast("list[Row]", raw.fetchall())
    if keeps:
        _uses[connection.connection].rows += len(rows)
    return rows


class _Use:
    """How a connection uses repeated statements."""

    __slots__ = ("_count", "_last", "_planned", "rows")

    def __init__(self) -> None:
        self.rows = 0
        """Rows that they have answered by the plans of now."""
        self._count = 0
        self._last = self._planned = time.monotonic()

    def is_frequent(self) -> bool:
        """Answer whether they come so often that plans are worth keeping; this is one more."""
        before, self._last = self._last, time.monotonic()
        self._count += 1
        return self._count > _TIMES and self._last - before < _PLAN_SECONDS

    def has_aged(self, *, soon: bool) -> bool:
        """Answer whether their plans are too old, and are to be made again now."""
        soon = soon or self.rows >= _MANY_ROWS
        if self._last - self._planned < (_PLAN_SECONDS if soon else _QUIET_PLAN_SECONDS):
            return False
        self._planned, self.rows = self._last, 0
        return True


class _Cursor(psycopg.RawCursor[Row]):
    """Sends a statement in the server's own spelling, worked out once for each."""

    def execute(self, query: Any, params: Any = None, **kwargs: Any) -> Self:
        """Run a statement with named parameters."""
        text, names = native(query)
        return super().execute(text, [params[name] for name in names], **kwargs)


class _PreparingCursor(_Cursor):
    """Prepares every statement at its first use; the connection keeps them."""

    def execute(self, query: Any, params: Any = None, **kwargs: Any) -> Self:
        """Run a statement that is prepared on the server."""
        connection = self.connection
        threshold = connection.prepare_threshold
        if threshold is None:  # the application's own statements stay as they are
            connection.prepare_threshold = _ONLY_ON_REQUEST
        try:
            return super().execute(query, params, **{**kwargs, "prepare": True})
        finally:
            connection.prepare_threshold = threshold


_PARAMETER = re.compile(r"%\((\w+)\)s")


@lru_cache(maxsize=256)
def native(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """Spell a statement as the server does, and name its parameters in their order."""
    numbers: dict[str, int] = {}
    text = _PARAMETER.sub(
        lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", statement
    )
    return text.replace("%%", "%").encode(), tuple(numbers)


_ONLY_ON_REQUEST = 2**31 - 1
"""A threshold that no statement reaches: only those are prepared that ask for it."""

_TIMES = 2
"""How often a connection runs repeated statements before it is worth asking where it leads."""

_PLAN_SECONDS = 1.0
"""Age up to which a repeated statement's plan is used: a table that was empty fills fast."""

_QUIET_PLAN_SECONDS = 10.0
"""The same while a process's own threads do little: whoever waits for their next job pays for it."""

_MANY_ROWS = 500
"""Rows answered since a plan was made that tell of a table which may have outgrown it."""

_direct: WeakKeyDictionary[psycopg.Connection[Row], bool] = WeakKeyDictionary()
_uses: WeakKeyDictionary[psycopg.Connection[Row], _Use] = WeakKeyDictionary()


def _keeps_plans(connection: BaseDatabaseWrapper, plans: _Plans) -> bool:
    """Answer whether a connection reaches its server process directly, and is to be prepared.

    A pooler stands for the server and names a process of its own. Behind one, the next
    transaction may run in a server process that knows none of the prepared statements.
    """
    raw: psycopg.Connection[Row] = connection.connection
    use = _uses.get(raw)
    if use is None:
        use = _uses[raw] = _Use()
    frequent = use.is_frequent()
    if plans is _Plans.SOON and not frequent:
        return False
    if raw.info.transaction_status is TransactionStatus.INERROR:
        return False
    direct = _direct.get(raw)
    if direct is None:
        with connection.wrap_database_errors, psycopg.Cursor(raw) as cursor:
            found = cursor.execute("SELECT pg_backend_pid()").fetchone()
            direct = found is not None and found[0] == raw.info.backend_pid
            if direct and plans is _Plans.ONCE:
                cursor.execute("SET plan_cache_mode = force_generic_plan")
        _direct[raw] = direct
    if direct and frequent and use.has_aged(soon=plans is _Plans.SOON):
        with connection.wrap_database_errors, psycopg.Cursor(raw) as cursor:
            cursor.execute("DISCARD PLANS")
    return direct


def _plan_as_usual(connection: BaseDatabaseWrapper) -> None:
    """Take back what a pool would hand to the next user of the session."""
    raw = connection.connection
    if raw is not None and not raw.closed and getattr(connection, "pool", None) is not None:
        with suppress(psycopg.Error), psycopg.Cursor(raw) as cursor:
            cursor.execute("RESET plan_cache_mode")
            _direct.pop(raw, None)


def _is_gone(connection: BaseDatabaseWrapper) -> bool:
    return connection.connection is None or bool(connection.connection.closed)
