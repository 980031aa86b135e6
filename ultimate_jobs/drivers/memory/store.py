"""Statements, one at a time, and the transactions that they belong to.

What a statement writes is kept apart until it has ended. In a transaction it stays apart, a layer of
that transaction, until the commit; a savepoint that is rolled back takes the layers off that were put
on since. A row or a key that an open transaction has written is its own until its end: another
statement that needs it waits, and then begins again with what it finds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db import OperationalError

from ultimate_jobs.core.records import Notice, Topic
from ultimate_jobs.drivers.memory.rows import EventRow
from ultimate_jobs.drivers.memory.tables import K, R, Table, Tables

T = TypeVar("T")
Clock = Callable[[], datetime]
Place = tuple[str, Hashable]
"""A row, by its table and key, or a key that several tables compete for."""


def by_the_wall() -> datetime:
    """Answer the machine's own time."""
    return datetime.now(UTC)  # noqa: TID251 - there is no database to ask


@dataclass(slots=True)
class Layer:
    """What one statement wrote, what it holds, and what is told of it when it is committed."""

    rows: dict[str, dict[Any, Any]] = field(default_factory=dict)
    holds: set[Place] = field(default_factory=set)
    notices: dict[Notice, None] = field(default_factory=dict)

    def add(self, other: Layer) -> None:
        """Put another one on top."""
        for table, rows in other.rows.items():
            self.rows.setdefault(table, {}).update(rows)
        self.holds |= other.holds
        self.notices |= other.notices


class Transaction:
    """What a transaction has written so far. Only its store touches it, under its lock."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.whole = Layer()
        self.marks: dict[str, int] = {}
        self.waits_for: Transaction | None = None
        self.thread = threading.get_ident()

    def put_on(self, layer: Layer) -> None:
        """Keep what a statement wrote."""
        self.layers.append(layer)
        self.whole.add(layer)

    def take_off(self, height: int) -> None:
        """Forget what was written since there were so many layers."""
        del self.layers[height:]
        self.whole = Layer()
        for layer in self.layers:
            self.whole.add(layer)


class Statement:
    """What one statement sees and writes: what is committed, its transaction's, and its own."""

    def __init__(self, store: Store, transaction: Transaction | None, now: datetime) -> None:
        self.now = now
        self.layer = Layer()
        self._store = store
        self.tables = store.tables
        self._transaction = transaction

    @property
    def snapshot(self) -> int:
        """The number of the last commit that it sees."""
        return self._store.commits

    def get(self, table: Table[K, R], key: K) -> R | None:
        """Answer the row of a key."""
        for layer in self._layers():
            changed = layer.rows.get(table.name)
            if changed is not None and key in changed:
                row: R | None = changed[key]
                return row
        return table.rows.get(key)

    def find(self, table: Table[K, R], index: str, value: Hashable) -> list[R]:
        """Answer the rows under a value of an index, in no order that means anything."""
        keys = dict.fromkeys(table.keys_of(index, value))
        keys |= self._changed(table)
        rows = (self.get(table, key) for key in keys)
        value_of = table.indexes[index]
        return [row for row in rows if row is not None and value_of(row) == value]

    def rows(self, table: Table[K, R]) -> list[R]:
        """Answer every row."""
        keys = dict.fromkeys(table.rows) | self._changed(table)
        rows = (self.get(table, key) for key in keys)
        return [row for row in rows if row is not None]

    def put(self, table: Table[K, R], row: R) -> None:
        """Write a row."""
        self._write(table, table.key(row), row)

    def remove(self, table: Table[K, R], row: R) -> None:
        """Remove a row."""
        self._write(table, table.key(row), None)

    def hold(self, place: Place) -> None:
        """Keep others from a place until the end; wait while another transaction does."""
        other = self._holder(place)
        if other is not None:
            raise _Occupied(other)
        self.layer.holds.add(place)

    def is_free(self, table: Table[K, R], row: R) -> bool:
        """Answer whether no other transaction holds a row: what ``SKIP LOCKED`` leaves."""
        return self._holder((table.name, table.key(row))) is None

    def others(self) -> list[Transaction]:
        """Answer the other transactions that have written something and are open."""
        return [other for other in self._store.open if other is not self._transaction]

    def tell(self, topic: Topic, text: str) -> None:
        """Send word when this is committed."""
        self.layer.notices[Notice(topic, text)] = None

    def _write(self, table: Table[K, R], key: K, row: R | None) -> None:
        self.hold((table.name, key))
        self.layer.rows.setdefault(table.name, {})[key] = row

    def _holder(self, place: Place) -> Transaction | None:
        holder = self._store.holders.get(place)
        return None if holder is self._transaction else holder

    def _layers(self) -> Iterator[Layer]:
        yield self.layer
        if self._transaction is not None:
            yield self._transaction.whole

    def _changed(self, table: Table[K, R]) -> dict[K, None]:
        changed: dict[K, None] = {}
        for layer in self._layers():
            changed |= dict.fromkeys(layer.rows.get(table.name, ()))
        return changed


class Store:
    """The tables, who has a transaction open on them, and who listens.

    Args:
        clock: answers the time that statements go by, an aware instant.

    """

    def __init__(self, clock: Clock = by_the_wall) -> None:
        self.tables = Tables()
        self.commits = 0
        self.open: list[Transaction] = []
        self.holders: dict[Place, Transaction] = {}
        self.listeners: list[Callable[[Notice], None]] = []
        self._clock = clock
        self._changed = threading.Condition()

    def run(self, work: Callable[[Statement], T], transaction: Transaction | None) -> T:
        """Run one statement: alone, and all of it or nothing.

        Raises:
            django.db.OperationalError: it and another transaction wait for each other.

        """
        with self._changed:
            while True:
                statement = Statement(self, transaction, self._clock())
                try:
                    answer = work(statement)
                except _Occupied as place:
                    self._wait_for(place.holder, transaction)
                else:
                    self._keep(statement.layer, transaction)
                    return answer

    def mark(self, transaction: Transaction, savepoint: str) -> None:
        """Note how far a transaction had come at a savepoint."""
        with self._changed:
            transaction.marks[savepoint] = len(transaction.layers)

    def roll_back_to(self, transaction: Transaction, savepoint: str) -> None:
        """Undo what a transaction has written since a savepoint."""
        with self._changed:
            self._let_go(transaction)
            transaction.take_off(transaction.marks.get(savepoint, 0))
            self._hold(transaction, transaction.whole)
            self._changed.notify_all()

    def end(self, transaction: Transaction, *, committed: bool) -> None:
        """Let everybody see what a transaction has written, or forget it."""
        with self._changed:
            self._let_go(transaction)
            if committed:
                self._commit(transaction.whole)
            transaction.take_off(0)
            transaction.marks.clear()
            self._changed.notify_all()

    @contextmanager
    def listening(self, listener: Callable[[Notice], None]) -> Iterator[None]:
        """Tell ``listener`` of what is committed inside the block."""
        with self._changed:
            self.listeners.append(listener)
        try:
            yield
        finally:
            with self._changed:
                self.listeners.remove(listener)

    def _keep(self, layer: Layer, transaction: Transaction | None) -> None:
        if transaction is None:
            self._commit(layer)
        elif layer.holds or layer.notices:
            transaction.put_on(layer)
            self._hold(transaction, layer)

    def _commit(self, layer: Layer) -> None:
        if layer.rows:
            self.commits += 1
        for name, rows in layer.rows.items():
            table = self.tables.named(name)
            for key, row in rows.items():
                table.replace(key, self._numbered(row))
        for notice in layer.notices:
            for listener in self.listeners:
                listener(notice)

    def _numbered(self, row: Any) -> Any:
        if isinstance(row, EventRow) and row.commit is None:
            return replace(row, commit=self.commits)
        return row

    def _hold(self, transaction: Transaction, layer: Layer) -> None:
        self.holders.update(dict.fromkeys(layer.holds, transaction))
        if transaction not in self.open:
            self.open.append(transaction)

    def _let_go(self, transaction: Transaction) -> None:
        for place in transaction.whole.holds:
            self.holders.pop(place, None)
        if transaction in self.open:
            self.open.remove(transaction)

    def _wait_for(self, holder: Transaction, waiter: Transaction | None) -> None:
        if waiter is None:
            if holder.thread == threading.get_ident():
                raise OperationalError(
                    "deadlock detected: the thread waits for its own transaction"
                )
            self._changed.wait()
            return
        waiter.waits_for = holder
        try:
            if _waits_for(holder, waiter):
                raise OperationalError("deadlock detected")
            self._changed.wait()
        finally:
            waiter.waits_for = None


class _Occupied(Exception):
    """Another open transaction holds a place."""

    def __init__(self, holder: Transaction) -> None:
        self.holder = holder


def _waits_for(one: Transaction, other: Transaction) -> bool:
    step: Transaction | None = one
    while step is not None and step is not other:
        step = step.waits_for
    return step is other
