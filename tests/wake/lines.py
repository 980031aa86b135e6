"""Ways to the database for a listening session: another alias, a proxy that goes silent, PgBouncer."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.db import connections  # noqa: TID251 - aliases of the tests' own
from django.db.backends.base.base import BaseDatabaseWrapper

from tests.builders import PATIENCE, settings_of, sql, wait_until
from ultimate_jobs.core.records import Topic
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.process.wake import Listener, Subscriber

LOOPBACK = "127.0.0.1"


class Told:
    """A loop that notes what it is told."""

    def __init__(self) -> None:
        self.queues: list[str] = []
        self.live: list[bool] = []

    def of(self, topic: Topic) -> Subscriber:
        return Subscriber(topic, self.queues.append, self.live.append)


@contextmanager
def a_listener(
    *subscribers: Subscriber, driver: Driver | None = None, **seconds: float
) -> Iterator[Listener]:
    """Listen inside the block, through the driver in use unless another one is given.

    Unless a test says otherwise, no stall of the machine is long enough to lose a probe.
    """
    listener = Listener(
        driver or get_driver(), subscribers, **{"answer_within": PATIENCE, **seconds}
    )
    listener.start()
    try:
        yield listener
    finally:
        listener.stop()


def sessions() -> list[int]:
    """Name the server processes of the listening sessions of this database."""
    rows = sql(
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE '%% (wake)'"
    )
    return [pid for (pid,) in rows]


@contextmanager
def alias(name: str, **changes: Any) -> Iterator[str]:
    """Add another way to the test's database for the length of the block."""
    connections.settings[name] = {**settings_of(), **changes}
    try:
        with _let_through(name):
            yield name
    finally:
        with suppress(AttributeError):
            connections[name].close()
            del connections[name]
        del connections.settings[name]


@contextmanager
def _let_through(name: str) -> Iterator[None]:
    """Let an alias connect that Django's test case has not heard of, and would refuse."""
    refuses: Any = BaseDatabaseWrapper.ensure_connection

    def connect(connection: BaseDatabaseWrapper) -> None:
        if connection.alias != name:
            refuses(connection)
        elif connection.connection is None:
            with connection.wrap_database_errors:
                connection.connect()

    with mock.patch.object(BaseDatabaseWrapper, "ensure_connection", connect):
        yield


# A network


class Proxy:
    """Carries bytes to the database until it goes silent: then it reads, and passes nothing on."""

    def __init__(self, server: Callable[[], socket.socket]) -> None:
        self._server = server
        self._silenced: list[threading.Event] = []
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._door = socket.create_server((LOOPBACK, 0))
        self.port = self._door.getsockname()[1]
        self._run(self._serve)

    def silence(self) -> None:
        """Drop, without a reset, what the connections of this moment would carry."""
        for silent in self._silenced:
            silent.set()

    def close(self) -> None:
        for end in (self._door, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        for end in (self._door, *self._ends):
            end.close()

    def _run(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server, silent = self._server(), threading.Event()
                self._ends += [client, server]
                self._silenced.append(silent)
                self._run(partial(_carry, client, server, silent))
                self._run(partial(_carry, server, client, silent))


def _carry(source: socket.socket, target: socket.socket, silent: threading.Event) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            if not silent.is_set():
                target.sendall(data)
        if not silent.is_set():
            target.shutdown(socket.SHUT_RDWR)


def to_the_server() -> socket.socket:
    """Connect to the server of the test's database, by its socket or over the network."""
    host, port = str(settings_of()["HOST"]), int(settings_of()["PORT"] or 5432)
    if host.startswith("/"):
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server
    return socket.create_connection((host or "localhost", port), PATIENCE)


@contextmanager
def a_proxy() -> Iterator[Proxy]:
    proxy = Proxy(to_the_server)
    try:
        yield proxy
    finally:
        proxy.close()


# A pool


@contextmanager
def closed_door() -> Iterator[int]:
    """Hold a port at which nobody listens, and nobody else can."""
    with socket.socket() as door:
        door.bind((LOOPBACK, 0))
        yield int(door.getsockname()[1])


@contextmanager
def pgbouncer() -> Iterator[str]:
    """Run a PgBouncer that pools by transaction, two connections wide; answer its socket's folder."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    server = settings_of()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        door = Path(folder, ".s.PGSQL.6432")
        config = Path(folder, "pgbouncer.ini")
        config.write_text(
            f"""
            [databases]
            {server["NAME"]} = host={server["HOST"] or "localhost"} port={server["PORT"] or 5432} \
user={server["USER"]} password={server["PASSWORD"] or "none"}
            [pgbouncer]
            listen_addr =
            listen_port = 6432
            unix_socket_dir = {folder}
            auth_type = any
            pool_mode = transaction
            default_pool_size = 2
            max_client_conn = 100
            ignore_startup_parameters = extra_float_digits,options
            """.replace("            ", ""),
            encoding="utf-8",
        )
        user = account(str(server["HOST"]))
        process = subprocess.Popen(
            [program, "-q", str(config)], user=user, stderr=subprocess.DEVNULL
        )
        try:
            wait_until(lambda: is_open(door) or process.poll() is not None, what="pgbouncer")
            assert process.poll() is None, "pgbouncer ended"
            yield folder
        finally:
            process.terminate()
            process.wait(PATIENCE)


def account(host: str) -> str | int:
    """Name who may run it: it refuses root, and has to reach the server's socket."""
    if os.getuid():
        return os.getuid()
    return Path(host).owner() if host.startswith("/") else "nobody"


def is_open(door: Path) -> bool:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as visitor:
        visitor.connect(str(door))
        return True
    return False
