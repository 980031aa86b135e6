"""The stores, assembled over one database alias."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ultimate_jobs.drivers.base import Part
from ultimate_jobs.drivers.postgres.connection import Clock, Database
from ultimate_jobs.drivers.postgres.events import PostgresEvents
from ultimate_jobs.drivers.postgres.operator import PostgresOperator
from ultimate_jobs.drivers.postgres.outbox import PostgresOutbox
from ultimate_jobs.drivers.postgres.queue import PostgresQueue
from ultimate_jobs.drivers.postgres.rate_limits import PostgresRateLimits
from ultimate_jobs.drivers.postgres.retention import PostgresRetention
from ultimate_jobs.drivers.postgres.schedule import PostgresSchedule
from ultimate_jobs.drivers.postgres.slots import PostgresSlots
from ultimate_jobs.drivers.postgres.steps import PostgresSteps
from ultimate_jobs.drivers.postgres.wake import PostgresWake


class PostgresDriver:
    """Jobs, outbox and signs of life in one PostgreSQL database.

    Args:
        alias: the database.
        wake_alias: the way to it for the listening session, when that is another one.
        clock: the time that statements go by; the database's own by default.
        database: where statements run; on the calling thread's connection by default.

    """

    name = "postgres"
    absent: Collection[Part] = frozenset()

    def __init__(
        self,
        alias: str,
        wake_alias: str | None = None,
        *,
        clock: Clock = lambda: None,
        database: Database | None = None,
    ) -> None:
        self._database = database or Database(alias, clock)
        self._outbox = PostgresOutbox(self._database)
        self._queue = PostgresQueue(self._database, self._outbox)
        self._slots = PostgresSlots(self._database)
        self._steps = PostgresSteps(self._database)
        self._events = PostgresEvents(self._database)
        self._operator = PostgresOperator(self._database)
        self._rate_limits = PostgresRateLimits(self._database)
        self._wake = PostgresWake(self._database, wake_alias or alias)
        self._schedule = PostgresSchedule(self._database)
        self._retention = PostgresRetention(self._database)

    @property
    def queue(self) -> PostgresQueue:
        """The jobs."""
        return self._queue

    @property
    def slots(self) -> PostgresSlots:
        """The slots of capped jobs."""
        return self._slots

    @property
    def outbox(self) -> PostgresOutbox:
        """The staged rows."""
        return self._outbox

    @property
    def steps(self) -> PostgresSteps:
        """The steps of runs."""
        return self._steps

    @property
    def events(self) -> PostgresEvents:
        """The events."""
        return self._events

    @property
    def operator(self) -> PostgresOperator:
        """The operator's verbs."""
        return self._operator

    @property
    def rate_limits(self) -> PostgresRateLimits:
        """The token buckets."""
        return self._rate_limits

    @property
    def wake(self) -> PostgresWake:
        """Word of new work."""
        return self._wake

    @property
    def schedule(self) -> PostgresSchedule:
        """What the scheduler stores."""
        return self._schedule

    @property
    def retention(self) -> PostgresRetention:
        """What is deleted when it is old."""
        return self._retention

    def repeat_statements(self, *, plan_once: bool = False) -> None:
        """Let the server keep the statements of the calling thread."""
        self._database.repeat_statements(plan_once=plan_once)

    def start_of_body(self, refuse: Callable[[], None]) -> None:
        """Prepare the calling thread's connections for a body."""
        self._database.start_of_body(refuse)

    def end_of_body(self) -> list[str]:
        """Leave the calling thread's connections as a new body must find them."""
        return self._database.end_of_body()

    def between_passes(self) -> None:
        """Let a long-lived loop forget its query log and drop a broken connection."""
        self._database.between_passes()

    def close(self) -> None:
        """Close the calling thread's connections."""
        self._database.close()
