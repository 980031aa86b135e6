"""The door that every statement of a process under test passes: it can be stopped there.

It stands around connections whose transaction is a savepoint of the test's own, so a statement
outside a transaction has been committed once it was answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, cast

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

Side = Literal["before", "after"]
"""Of a statement: before it is sent, or after it was answered and before the program hears."""

Pass = Callable[[str, Side], None]
"""Told of each statement by its name, on both sides; what it raises is raised there."""

COMMIT = "COMMIT"

_SAVEPOINT = re.compile(r"\s*(ROLLBACK TO |RELEASE )?SAVEPOINT\b", re.IGNORECASE)
_MAX_NAME_CHARS = 60


class Killed(BaseException):
    """The process is dead. No ``Exception``: no handler of a body is to see it."""


def connections_in_use() -> list[BaseDatabaseWrapper]:
    """Answer the calling thread's connections, also those that are closed."""
    return list(connections.all(initialized_only=True))


@contextmanager
def door(statements: Mapping[str, str], passes: Pass) -> Iterator[None]:
    """Tell of every statement of the calling thread's connections inside the block.

    Savepoints pass unseen: they say nothing to anybody else, and a transaction of the dead has to
    be undone.

    Args:
        statements: the texts of known statements by their names.
        passes: told of every statement.

    """
    names = {text: name for name, text in statements.items()}
    with ExitStack() as stack:
        for connection in connections_in_use():
            stack.enter_context(_Watch(connection, names, passes).installed())
        yield


class _Watch:
    def __init__(
        self, connection: BaseDatabaseWrapper, names: Mapping[str, str], passes: Pass
    ) -> None:
        self._connection = connection
        self._names = names
        self._passes = passes

    @contextmanager
    def installed(self) -> Iterator[None]:
        plain, wrappers = vars(self._connection), self._connection.execute_wrappers
        before = plain.get("_commit")
        self._plain_commit = cast("Any", self._connection)._commit  # noqa: SLF001 - Django's own seam
        wrappers.insert(0, self._execute)
        plain["_commit"] = self._commit
        try:
            yield
        finally:
            wrappers.remove(self._execute)
            if before is None:
                del plain["_commit"]
            else:
                plain["_commit"] = before

    def _execute(self, send: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        text = sql if isinstance(sql, str) else str(sql)
        if _SAVEPOINT.match(text):
            return send(sql, params, many, context)
        name = self._name_of(text, params)
        self._passes(name, "before")
        answer = send(sql, params, many, context)
        self._passes(name, "after")
        return answer

    def _commit(self) -> None:
        try:
            self._passes(COMMIT, "before")
        except BaseException:
            self._connection.rollback()
            raise
        self._plain_commit()
        try:
            self._passes(COMMIT, "after")
        except BaseException:
            self._connection.run_on_commit = []  # nobody lives to run them
            raise

    def _name_of(self, text: str, params: object) -> str:
        """Name a statement: one of the package's by its file, any other by its first words."""
        ours = self._names.get(text)
        if ours is None:
            return " ".join(text.split())[:_MAX_NAME_CHARS]
        if ours == "steps/put" and isinstance(params, Mapping):
            return f"{ours} of '{params['name']}' ({params['status']})"
        return ours
