"""Word of new work: a session of its own that listens, and probes that prove it."""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
from django.db import InterfaceError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from ultimate_jobs.core.records import Notice, Topic
from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database, dedicated, run

NAME_SUFFIX = " (wake)"
"""What the session's ``application_name`` ends with."""

_QUICK_TO_NOTICE = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""How libpq finds out that the other end is silently gone."""


class PostgresWake:
    """``NOTIFY`` in the statements, ``LISTEN`` on a dedicated session."""

    def __init__(self, database: Database, alias: str) -> None:
        self._database = database
        self._alias = alias

    def listen(self, *topics: Topic) -> PostgresListening:
        """Dial a session of its own and listen."""
        connection = dedicated(self._alias, suffix=NAME_SUFFIX, options=_QUICK_TO_NOTICE)
        try:
            connection.ensure_connection()
            return PostgresListening(connection, topics or tuple(Topic))
        except (OperationalError, InterfaceError) as error:
            connection.close()
            raise Unreachable(type(error).__name__) from error
        except BaseException:
            connection.close()
            raise

    def tell(self, words: Sequence[str]) -> None:
        """Send words to everybody who listens for results."""
        self._database.rows(sql.WAKE_TELL, {"words": list(words)})

    def probe(self, token: str) -> None:
        """Send a token over every channel, on the calling thread's connection."""
        self._database.rows(sql.WAKE_PROBE, {"token": token})


class PostgresListening:
    """A session that listens. Between two words it waits in the operating system."""

    def __init__(self, connection: BaseDatabaseWrapper, topics: Sequence[Topic]) -> None:
        self._connection = connection
        self._session: Any = connection.connection
        self._come: list[Notice] = []
        self._session.add_notify_handler(self._hear)
        (channels,) = run(connection, sql.WAKE_CHANNELS, {})
        named = zip(channels, Topic, strict=True)
        self._topics = {channel: topic for channel, topic in named if topic in topics}
        with connection.wrap_database_errors:
            self._session.execute("; ".join(f"LISTEN {channel}" for channel in self._topics))
        self._inner, self._outer = socket.socketpair()
        self._ready = select.poll()
        self._ready.register(self._session.fileno(), select.POLLIN)
        self._ready.register(self._inner.fileno(), select.POLLIN)

    def receive(self, seconds: float) -> list[Notice]:
        """Wait until something comes; answer what has come."""
        self._read()
        if not self._come:
            self._ready.poll(max(seconds, 0.0) * 1000)
            self._read()
        come, self._come = self._come, []
        return come

    def interrupt(self) -> None:
        """End the wait in progress and every later one."""
        self._outer.send(b"!")

    def renounce(self) -> None:
        """Stop listening: behind a proxy the session goes on, and serves others."""
        with suppress(psycopg.Error):
            self._session.execute("UNLISTEN *")

    def close(self) -> None:
        """Hang up."""
        self._connection.close()
        self._inner.close()
        self._outer.close()

    def _read(self) -> None:
        raw = self._session.pgconn
        try:
            raw.consume_input()
        except psycopg.Error as error:
            raise Unreachable(type(error).__name__) from error
        while (word := raw.notifies()) is not None:
            self._hear(psycopg.Notify(word.relname.decode(), word.extra.decode(), word.be_pid))

    def _hear(self, word: psycopg.Notify) -> None:
        topic = self._topics.get(word.channel)
        if topic is not None:
            self._come.append(Notice(topic, word.payload))
