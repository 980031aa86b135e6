"""What is committed: rows by their keys, with indexes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar
from uuid import UUID

from ultimate_jobs.drivers.memory.rows import (
    BucketRow,
    CounterRow,
    EventRow,
    JobRow,
    LeaderRow,
    LeaseRow,
    PauseRow,
    StagedRow,
    StepRow,
    TaskRow,
    WorkerRow,
)

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

Index = Callable[[R], Hashable]
"""Answers the value under which a row is found; ``None``: it is not in the index."""


class Table(Generic[K, R]):
    """Committed rows of one kind. Only a commit changes it."""

    def __init__(self, name: str, key: Callable[[R], K], /, **indexes: Index[R]) -> None:
        self.name = name
        self.key = key
        self.rows: dict[K, R] = {}
        self.indexes = indexes
        self._found: dict[str, dict[Hashable, dict[K, None]]] = {index: {} for index in indexes}

    def keys_of(self, index: str, value: Hashable) -> Iterable[K]:
        """Answer the keys of the rows under a value of an index."""
        return self._found[index].get(value, ())

    def replace(self, key: K, row: R | None) -> None:
        """Put a row in the place of another; ``None`` removes it."""
        self._unlist(key)
        if row is None:
            self.rows.pop(key, None)
            return
        self.rows[key] = row
        for index, value_of in self.indexes.items():
            value = value_of(row)
            if value is not None:
                self._found[index].setdefault(value, {})[key] = None

    def _unlist(self, key: K) -> None:
        old = self.rows.get(key)
        if old is None:
            return
        for index, value_of in self.indexes.items():
            value = value_of(old)
            if value is not None:
                listed = self._found[index][value]
                del listed[key]
                if not listed:
                    del self._found[index][value]


class Tables:
    """All of them."""

    def __init__(self) -> None:
        self.jobs: Table[UUID, JobRow] = Table(
            "jobs",
            lambda row: row.id,
            live=lambda row: row.namespace if row.is_live else None,
            claimable=lambda row: row.queue if row.is_waiting and not row.blocked else None,
            blocked=lambda row: row.lease_key if row.is_waiting and row.blocked else None,
            sharing=lambda row: row.lease_key if row.is_waiting and not row.blocked else None,
            state=lambda row: row.state,
        )
        self.outbox: Table[UUID, StagedRow] = Table(
            "outbox",
            lambda row: row.id,
            staged=lambda row: row.namespace if row.published_at is None else None,
            waiting=lambda row: row.published_at is None or None,
        )
        self.steps: Table[tuple[UUID, str], StepRow] = Table(
            "steps",
            lambda row: (row.run_id, row.name),
            run=lambda row: row.run_id,
            job=lambda row: row.job_id,
            waiting=lambda row: row.event if row.status == "waiting" else None,
        )
        self.events: Table[UUID, EventRow] = Table(
            "events", lambda row: row.id, name=lambda row: row.name
        )
        self.leases: Table[tuple[str, int], LeaseRow] = Table(
            "leases", lambda row: (row.lease_key, row.slot), key=lambda row: row.lease_key
        )
        self.workers: Table[str, WorkerRow] = Table("workers", lambda row: row.id)
        self.pauses: Table[tuple[str, str], PauseRow] = Table(
            "pauses", lambda row: (row.kind, row.name)
        )
        self.counters: Table[tuple[Any, ...], CounterRow] = Table(
            "counters", lambda row: (row.span, row.bucket, row.name)
        )
        self.buckets: Table[str, BucketRow] = Table("buckets", lambda row: row.key)
        self.tasks: Table[str, TaskRow] = Table("tasks", lambda row: row.name)
        self.leader: Table[int, LeaderRow] = Table("leader", lambda row: 1)

    def named(self, name: str) -> Table[Any, Any]:
        """Answer a table by its name."""
        table: Table[Any, Any] = getattr(self, name)
        return table
