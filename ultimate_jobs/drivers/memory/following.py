"""Whose transaction a statement belongs to: Django's on one alias, or one of the store's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from django.db import connections, transaction as django_transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ultimate_jobs.drivers.connections import is_of_a_test_case, is_open, is_open_elsewhere
from ultimate_jobs.drivers.memory.store import Statement, Store, Transaction

T = TypeVar("T")
_ATTRIBUTE = "ultimate_jobs_followers"


class Sessions(Protocol):
    """The transactions of the calling thread."""

    def current(self) -> Transaction | None:
        """Answer the open transaction, if there is one."""
        ...

    def transact(self, work: Callable[[], T]) -> T:
        """Run work in a transaction, or in a savepoint of the open one."""
        ...

    def is_foreign(self) -> bool:
        """Answer whether a transaction is open on another database only."""
        ...

    def is_of_a_test_case(self) -> bool:
        """Answer whether the open transaction is the one around a ``TestCase``."""
        ...

    def own_depth(self) -> int:
        """Answer how many blocks are open that Django does not count."""
        ...

    def abandon(self) -> None:
        """Roll back what the thread left open, before its connection is thrown away."""
        ...


class Body(threading.local):
    """What the body on the calling thread is asked before it writes; it may refuse by raising."""

    refuse: Callable[[], None] | None = None

    def ask(self) -> None:
        """Ask it."""
        if self.refuse is not None:
            self.refuse()


class Session:
    """How a store is reached by the calling thread, whose body is asked before each statement."""

    def __init__(self, store: Store, sessions: Sessions, body: Body) -> None:
        self.store = store
        self.sessions = sessions
        self.body = body

    def run(self, work: Callable[[Statement], T]) -> T:
        """Run a statement in the transaction of the calling thread, if it has one open."""
        self.body.ask()
        return self.store.run(work, self.sessions.current())

    def run_apart(self, work: Callable[[Statement], T]) -> T:
        """Run a statement that is committed at once, whatever is open."""
        self.body.ask()
        return self.store.run(work, None)


class OwnSessions:
    """Transactions that nothing but the store knows of: ``with sessions.atomic()``."""

    def __init__(self, store: Store, body: Body) -> None:
        self._store = store
        self._body = body
        self._thread = threading.local()

    def current(self) -> Transaction | None:
        """Answer the open transaction, if there is one."""
        open_one: Transaction | None = getattr(self._thread, "transaction", None)
        return open_one

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Open a transaction for the block, or a savepoint of the open one."""
        outer, depth = self.current(), self.own_depth()
        self._thread.depth = depth + 1
        try:
            with self._whole() if outer is None else self._savepoint(outer, depth):
                yield
        finally:
            self._thread.depth = depth

    @contextmanager
    def _whole(self) -> Iterator[None]:
        ours = self._thread.transaction = Transaction()
        committed = False
        try:
            yield
            self._body.ask()
            committed = True
        finally:
            self._thread.transaction = None
            self._store.end(ours, committed=committed)

    @contextmanager
    def _savepoint(self, outer: Transaction, depth: int) -> Iterator[None]:
        name = str(depth)
        self._store.mark(outer, name)
        try:
            yield
        except BaseException:
            self._store.roll_back_to(outer, name)
            raise

    def transact(self, work: Callable[[], T]) -> T:
        """Run work in a transaction, or in a savepoint of the open one."""
        with self.atomic():
            return work()

    def is_foreign(self) -> bool:
        """Answer whether Django has a transaction open, which this store cannot take part in."""
        return self.current() is None and is_open_elsewhere(None)

    def is_of_a_test_case(self) -> bool:
        """Answer that no ``TestCase`` opens one."""
        return False

    def own_depth(self) -> int:
        """Answer how many blocks are open."""
        depth: int = getattr(self._thread, "depth", 0)
        return depth

    def abandon(self) -> None:
        """Do nothing: a block always ends its own transaction."""


class DjangoSessions:
    """Django's own transactions on an alias: their commits, rollbacks and savepoints."""

    def __init__(self, store: Store, alias: str) -> None:
        self._store = store
        self._alias = alias

    def current(self) -> Transaction | None:
        """Answer what stands for Django's open transaction, if there is one."""
        connection = connections[self._alias]
        if not is_open(connection):
            return None
        connection.validate_no_broken_transaction()
        part = _followers(connection).get(self._store)
        return part.transaction

    def transact(self, work: Callable[[], T]) -> T:
        """Run work in a transaction of Django's."""
        with django_transaction.atomic(using=self._alias):
            return work()

    def is_foreign(self) -> bool:
        """Answer whether a transaction is open on another alias only."""
        return not is_open(connections[self._alias]) and is_open_elsewhere(self._alias)

    def is_of_a_test_case(self) -> bool:
        """Answer whether the open transaction is the one around a ``TestCase``."""
        return is_of_a_test_case(connections[self._alias])

    def own_depth(self) -> int:
        """Answer that there are none but Django's."""
        return 0

    def abandon(self) -> None:
        """Roll back what the thread left open, before its connection is thrown away."""
        connection = connections[self._alias]
        if is_open(connection):
            _followers(connection).ended(committed=False)


class _Part:
    """The part that one store takes in a transaction of Django's."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.transaction = Transaction()


class _Followers:
    """The stores that take part in the transaction that is open on a connection.

    A savepoint from before a store took part is not known to it: everything it has came after.
    """

    def __init__(self) -> None:
        self._parts: dict[Store, _Part] = {}

    def get(self, store: Store) -> _Part:
        """Answer the part of a store, which begins now if it has none."""
        return self._parts.setdefault(store, _Part(store))

    def marked(self, savepoint: str) -> None:
        """Note a savepoint."""
        for part in self._parts.values():
            part.store.mark(part.transaction, savepoint)

    def rolled_back_to(self, savepoint: str) -> None:
        """Undo what came after a savepoint."""
        for part in self._parts.values():
            part.store.roll_back_to(part.transaction, savepoint)

    def ended(self, *, committed: bool) -> None:
        """End the transaction for every store."""
        parts, self._parts = self._parts, {}
        for part in parts.values():
            part.store.end(part.transaction, committed=committed)


def _followers(connection: BaseDatabaseWrapper) -> _Followers:
    """Answer who follows a connection's transactions; from the first time on it tells them."""
    found: _Followers | None = vars(connection).get(_ATTRIBUTE)
    if found is not None:
        return found
    followers = _Followers()
    vars(connection).update({_ATTRIBUTE: followers, **_telling(connection, followers)})
    return followers


def _telling(connection: BaseDatabaseWrapper, followers: _Followers) -> dict[str, Any]:
    """Wrap what ends a transaction or a savepoint, on this connection alone."""
    commit, rollback, close = connection.commit, connection.rollback, connection.close
    savepoint, savepoint_rollback = connection.savepoint, connection.savepoint_rollback

    def committing() -> None:
        commit()
        followers.ended(committed=True)

    def rolling_back() -> None:
        try:
            rollback()
        finally:
            followers.ended(committed=False)

    def closing() -> None:
        try:
            close()
        finally:
            followers.ended(committed=False)

    def saving() -> Any:
        name = savepoint()
        if name is not None:
            followers.marked(name)
        return name

    def rolling_back_to(name: str) -> None:
        try:
            savepoint_rollback(name)
        finally:
            followers.rolled_back_to(name)

    return {
        "commit": committing,
        "rollback": rolling_back,
        "close": closing,
        "savepoint": saving,
        "savepoint_rollback": rolling_back_to,
    }
