"""A connection inside a transaction that behaves as if it had none open: for tests.

A Django ``TestCase`` keeps a test in one transaction and rolls it back. Code that runs jobs expects
what a worker has: a connection that commits by itself. ``nested`` gives it that, on the same
connection and inside the same transaction: what would be a transaction is a savepoint, and so is
each statement outside one. Whatever fails undoes no more than it would in production, hooks of
``on_commit`` run when their block commits, and deferred constraints are checked then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from ultimate_jobs.drivers.connections import HARMLESS, is_open

_FRESH: dict[str, Callable[[], object]] = {
    "in_atomic_block": lambda: False,
    "savepoint_ids": list,
    "atomic_blocks": list,
    "needs_rollback": lambda: False,
    "rollback_exc": lambda: None,
    "run_on_commit": list,
    "run_commit_hooks_on_set_autocommit_on": lambda: False,
    "commit_on_exit": lambda: True,
    "autocommit": lambda: True,
}
"""What Django keeps about a connection's transaction, as it is where none is open."""

_CHECK = ("SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS ALL DEFERRED")
"""What a commit checks, on PostgreSQL."""


@contextmanager
def nested(
    connection: BaseDatabaseWrapper, refuse: Callable[[], None], rewrite: Callable[[str], str]
) -> Iterator[None]:
    """Let a connection look as if no transaction were open, inside the block.

    ``refuse`` is asked before each statement that is no plain read, and before each commit;
    ``rewrite`` has the last word on a statement's text.
    """
    plain = vars(connection)
    inner = _Inner(connection, refuse, rewrite)
    inside = {name: value() for name, value in _FRESH.items()} | inner.instead()
    before = {name: plain[name] for name in inside if name in plain}
    plain.update(inside)
    connection.execute_wrappers.append(inner.execute)
    try:
        yield
    finally:
        undo(connection)
        connection.execute_wrappers.remove(inner.execute)
        for name in inside:
            plain.pop(name, None)
        plain.update(before)


def undo(connection: BaseDatabaseWrapper) -> bool:
    """Roll back a transaction that was left open; answer whether there was one."""
    if not is_open(connection):
        return False
    vars(connection).update(in_atomic_block=False, savepoint_ids=[], atomic_blocks=[])
    connection.rollback()
    connection.set_autocommit(True)
    return True


class _Inner:
    """Transactions as savepoints."""

    def __init__(
        self,
        connection: BaseDatabaseWrapper,
        refuse: Callable[[], None],
        rewrite: Callable[[str], str],
    ) -> None:
        self._connection = connection
        self._rewrite = rewrite
        self._refuse = refuse
        self._begun = False
        self._is_postgres = connection.vendor == "postgresql"
        self._check = _CHECK if self._is_postgres else ()

    def instead(self) -> dict[str, Any]:
        """Name the methods of the connection that begin and end a transaction."""
        return {
            "_set_autocommit": self._set_autocommit,
            "_start_transaction_under_autocommit": lambda: self._set_autocommit(False),  # SQLite
            "_commit": self._commit,
            "_rollback": self._rollback,
            "close": lambda: None,
        }

    def execute(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        """Run a statement; outside a transaction it is one of its own."""
        if not HARMLESS.match(sql if isinstance(sql, str) else ""):
            self._refuse()
        if isinstance(sql, str):
            sql = self._rewrite(sql)
        if self._begun or not self._is_postgres:  # elsewhere an error undoes its statement alone
            return execute(sql, params, many, context)
        self._run("SAVEPOINT ultimate_jobs_statement")
        try:
            answer = execute(sql, params, many, context)
            self._run(*self._check, "RELEASE SAVEPOINT ultimate_jobs_statement")
        except BaseException:
            self._run(
                "ROLLBACK TO SAVEPOINT ultimate_jobs_statement",
                "RELEASE SAVEPOINT ultimate_jobs_statement",
            )
            raise
        return answer

    def _set_autocommit(self, autocommit: bool) -> None:  # noqa: FBT001 - Django's own method
        if autocommit and self._begun:
            self._run("RELEASE SAVEPOINT ultimate_jobs_transaction")
        elif not autocommit and not self._begun:
            self._run("SAVEPOINT ultimate_jobs_transaction")
        self._begun = not autocommit

    def _commit(self) -> None:
        try:
            self._refuse()
        except BaseException:
            self._rollback()
            raise
        if self._begun:
            self._run(
                *self._check,
                "RELEASE SAVEPOINT ultimate_jobs_transaction",
                "SAVEPOINT ultimate_jobs_transaction",
            )

    def _rollback(self) -> None:
        if self._begun:
            self._run("ROLLBACK TO SAVEPOINT ultimate_jobs_transaction")

    def _run(self, *statements: str) -> None:
        """Run statements past Django: with one round trip, where the server takes them together."""
        raw = self._connection.connection
        with self._connection.wrap_database_errors:
            if self._is_postgres:
                raw.execute("; ".join(statements), prepare=False)
                return
            with closing(raw.cursor()) as cursor:
                for statement in statements:
                    cursor.execute(statement)
