"""The stores, assembled over one database alias."""

from __future__ import annotations

from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.drivers.postgres.outbox import PostgresOutbox
from ultimate_jobs.drivers.postgres.queue import PostgresQueue


class PostgresDriver:
    """Jobs, outbox and signs of life in one PostgreSQL database."""

    name = "postgres"

    def __init__(self, alias: str) -> None:
        self._database = Database(alias)
        self._outbox = PostgresOutbox(self._database)
        self._queue = PostgresQueue(self._database, self._outbox)

    @property
    def queue(self) -> PostgresQueue:
        """The jobs."""
        return self._queue

    @property
    def outbox(self) -> PostgresOutbox:
        """The staged rows."""
        return self._outbox

    def end_of_body(self) -> list[str]:
        """Leave the calling thread's connections as a new body must find them."""
        return self._database.end_of_body()

    def between_passes(self) -> None:
        """Let a long-lived loop forget its query log and drop a broken connection."""
        self._database.between_passes()

    def close(self) -> None:
        """Close the calling thread's connections."""
        self._database.close()
