"""Events: written in the caller's transaction, found by whoever began to wait before it committed."""

from __future__ import annotations

from ultimate_jobs.core.records import NewEvent
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database

PUBLISHING_LOCK = 0x785F6A65
"""Class of the advisory locks by which a transaction says that it publishes."""


class PostgresEvents:
    """The table ``x_job_events``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def publish(self, event: NewEvent) -> int:
        """Write an event and make the runs that wait for it due."""
        return self._database.transact(lambda: self._publish(event))

    def _publish(self, event: NewEvent) -> int:
        self._database.rows(sql.EVENT_ANNOUNCE, {"publishing_lock": PUBLISHING_LOCK})
        ((_, woken),) = self._database.rows(
            sql.EVENT_PUBLISH,
            {
                "id": event.id,
                "name": event.name,
                "payload": event.payload,
                "correlation_key": event.correlation_key,
                "ttl": event.ttl,
            },
        )
        return int(woken)
