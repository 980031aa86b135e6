"""The calling thread's Django connections: what is open on them, and how a body finds and leaves them."""

from __future__ import annotations

import re
from collections.abc import Callable
from threading import local
from typing import Any

from django.db import connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created


class _Known(local):
    """What is known of the calling thread's connections, since none of them has connected."""

    guarded = False
    closed = False


_known = _Known()


def _connected(**kwargs: object) -> None:
    _known.guarded = _known.closed = False


connection_created.connect(_connected, dispatch_uid="ultimate_jobs")


def is_open(connection: BaseDatabaseWrapper) -> bool:
    """Answer whether a connection has a transaction open."""
    return connection.in_atomic_block or (
        connection.connection is not None and not connection.autocommit
    )


def is_open_elsewhere(alias: str | None) -> bool:
    """Answer whether the thread has a transaction open on another database than an alias's."""
    if alias is not None and len(connections.settings) == 1:
        return False
    return any(
        is_open(other)
        for other in connections.all(initialized_only=True)
        if alias is None or other is not connections[alias]
    )


def is_of_a_test_case(connection: BaseDatabaseWrapper) -> bool:
    """Answer whether Django's ``TestCase`` opened a connection's transaction."""
    blocks = connection.atomic_blocks
    return bool(blocks) and getattr(blocks[0], "_from_testcase", False)


def open_blocks() -> int:
    """Answer how many transaction blocks the thread has open, on any database."""
    if _known.closed:
        return 0
    return sum(
        1 + len(connection.savepoint_ids)
        for connection in connections.all(initialized_only=True)
        if is_open(connection)
    )


def guard_all(refuse: Callable[[], None]) -> None:
    """Let every connection of the thread ask ``refuse`` before it writes or commits."""
    if not _known.guarded:
        for alias in connections:
            guard(connections[alias], refuse)
        _known.guarded = True


def guard(connection: BaseDatabaseWrapper, refuse: Callable[[], None]) -> None:
    """Let a connection ask before each statement that is no plain read, and before each commit.

    Django sends BEGIN and COMMIT past its wrappers: a block is refused at its first write, and at
    its commit, which is undone instead. Undoing is never refused.
    """
    if getattr(connection, "ultimate_jobs_guarded", False):
        return

    def ask(go_on: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        if not HARMLESS.match(sql if isinstance(sql, str) else ""):
            refuse()
        return go_on(sql, params, many, context)

    commit = connection.commit

    def commit_unless_refused() -> None:
        try:
            refuse()
        except BaseException:
            connection.rollback()
            raise
        commit()

    connection.execute_wrappers.append(ask)
    vars(connection).update(commit=commit_unless_refused, ultimate_jobs_guarded=True)


HARMLESS = re.compile(
    r"\s*(SELECT(?!.*\b(FOR\s+UPDATE|INTO)\b)|ROLLBACK|RELEASE|SHOW)\b", re.IGNORECASE | re.DOTALL
)


def tidy_up() -> list[str]:
    """Roll back what the thread left open and answer where; close what is broken or too old.

    Where all were closed and none has connected since, there is nothing to do.
    """
    left_open: list[str] = []
    if _known.closed:
        return left_open
    for connection in connections.all(initialized_only=True):
        if is_open(connection):
            left_open.append(connection.alias)
            _drop(connection)
        else:
            connection.close_if_unusable_or_obsolete()
    reset_queries()
    _known.closed = all(one.connection is None for one in connections.all(initialized_only=True))
    return left_open


def _drop(connection: BaseDatabaseWrapper) -> None:
    """Forget a connection with an open transaction; the server rolls it back."""
    if connection.connection is not None:
        connection.connection.close()
    del connections[connection.alias]
    _known.guarded = False


def forget_queries(alias: str) -> None:
    """Forget the query log, and close the connection to an alias if an error broke it."""
    connection = connections[alias]
    if connection.errors_occurred and not connection.is_usable():
        connection.close()
    reset_queries()


def close_all() -> None:
    """Close the thread's connections."""
    connections.close_all()
