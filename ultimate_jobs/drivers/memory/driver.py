"""The stores, assembled over one memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from ultimate_jobs.drivers.base import Part
from ultimate_jobs.drivers.connections import close_all, forget_queries, guard_all, tidy_up
from ultimate_jobs.drivers.memory.events import MemoryEvents
from ultimate_jobs.drivers.memory.following import Body, DjangoSessions, OwnSessions, Session
from ultimate_jobs.drivers.memory.operator import MemoryOperator
from ultimate_jobs.drivers.memory.outbox import MemoryOutbox
from ultimate_jobs.drivers.memory.queue import MemoryQueue
from ultimate_jobs.drivers.memory.rate_limits import MemoryRateLimits
from ultimate_jobs.drivers.memory.retention import MemoryRetention
from ultimate_jobs.drivers.memory.schedule import MemorySchedule
from ultimate_jobs.drivers.memory.slots import MemorySlots
from ultimate_jobs.drivers.memory.steps import MemorySteps
from ultimate_jobs.drivers.memory.store import Clock, Store, by_the_wall
from ultimate_jobs.drivers.memory.wake import MemoryWake
from ultimate_jobs.errors import InvariantError


class MemoryDriver:
    """Jobs in the memory of this process, for tests. Any thread may use it.

    Args:
        alias: the database whose transactions a staged row, a step and an event belong to: Django's
            own commits, rollbacks and savepoints decide. ``None``: no database is needed, and
            ``atomic`` opens the only transactions there are.
        clock: answers the time that everything goes by, an aware instant.

    """

    name = "memory"
    absent: Collection[Part] = frozenset({Part.DURABILITY})

    def __init__(self, alias: str | None = "default", *, clock: Clock = by_the_wall) -> None:
        self.store = Store(clock)
        self._alias = alias
        self._body = Body()
        self._own = OwnSessions(self.store, self._body)
        sessions = self._own if alias is None else DjangoSessions(self.store, alias)
        self._session = Session(self.store, sessions, self._body)
        self._outbox = MemoryOutbox(self._session)
        self._queue = MemoryQueue(self._session)
        self._slots = MemorySlots(self._session)
        self._steps = MemorySteps(self._session)
        self._events = MemoryEvents(self._session)
        self._operator = MemoryOperator(self._session)
        self._rate_limits = MemoryRateLimits(self._session)
        self._wake = MemoryWake(self._session)
        self._schedule = MemorySchedule(self._session)
        self._retention = MemoryRetention(self._session)

    @property
    def queue(self) -> MemoryQueue:
        """The jobs."""
        return self._queue

    @property
    def slots(self) -> MemorySlots:
        """The slots of capped jobs."""
        return self._slots

    @property
    def outbox(self) -> MemoryOutbox:
        """The staged rows."""
        return self._outbox

    @property
    def steps(self) -> MemorySteps:
        """The steps of runs."""
        return self._steps

    @property
    def events(self) -> MemoryEvents:
        """The events."""
        return self._events

    @property
    def operator(self) -> MemoryOperator:
        """The operator's verbs."""
        return self._operator

    @property
    def rate_limits(self) -> MemoryRateLimits:
        """The token buckets."""
        return self._rate_limits

    @property
    def wake(self) -> MemoryWake:
        """Word of new work."""
        return self._wake

    @property
    def schedule(self) -> MemorySchedule:
        """What the scheduler stores."""
        return self._schedule

    @property
    def retention(self) -> MemoryRetention:
        """What is deleted when it is old."""
        return self._retention

    def atomic(self) -> AbstractContextManager[None]:
        """Open a transaction of the driver's own, or a savepoint in it.

        Raises:
            InvariantError: the driver follows the transactions of a database; open one there.

        """
        if self._alias is not None:
            raise InvariantError(
                f"The driver follows the transactions of the database '{self._alias}'.",
                fix="Open the transaction with django.db.transaction.atomic().",
            )
        return self._own.atomic()

    def repeat_statements(self, *, plan_once: bool = False) -> None:
        """Do nothing: a statement is no text that a server would keep."""

    def start_of_body(self, refuse: Callable[[], None]) -> None:
        """Let the thread's connections, and this driver, ask before they write for a body."""
        guard_all(refuse)
        self._body.refuse = refuse

    def end_of_body(self) -> list[str]:
        """Leave the calling thread's connections as a new body must find them."""
        self._session.sessions.abandon()
        return tidy_up()

    def between_passes(self) -> None:
        """Let a long-lived loop forget its query log and drop a broken connection."""
        if self._alias is not None:
            forget_queries(self._alias)

    def close(self) -> None:
        """Close the calling thread's connections."""
        close_all()
