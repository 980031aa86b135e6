"""The embedded server: shared, ended with its last user, and started again after a crash."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from testproject.postgres.account import Account
from testproject.postgres.errors import PostgresFailed
from testproject.postgres.locks import lock
from testproject.postgres.server import ROOT, SOCKET, SOCKET_BYTES, Server
from tests.builders import wait_until

pytestmark = [pytest.mark.scenario, pytest.mark.slow, pytest.mark.timeout(900)]

USE = """
import sys
from pathlib import Path
from testproject.postgres.server import Server
Server(Path(sys.argv[1])).hold()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Answer a folder that the server's own user can reach: pytest's are closed to others."""
    made = Path(tempfile.mkdtemp(prefix="ultimate_jobs-postgres-"))
    yield made

    def is_gone() -> bool:
        shutil.rmtree(made, ignore_errors=True)  # a server that is leaving still writes
        return not made.exists()

    wait_until(is_gone)


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    found = Server(folder / ".postgres")
    yield found
    found.stop()


def start_user(server: Server) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", USE, str(server.folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def is_held_by(user: subprocess.Popen[str]) -> bool:
    assert user.stdout is not None
    return user.stdout.readline() == "held\n"


@contextmanager
def using(server: Server) -> Iterator[subprocess.Popen[str]]:
    with start_user(server) as user:
        assert is_held_by(user)
        try:
            yield user
        finally:
            user.kill()


def connect(server: Server) -> psycopg.Connection:
    return psycopg.connect(server.url, autocommit=True)


def ask(server: Server, question: str) -> str:
    with connect(server) as connection:
        row = connection.execute(sql.SQL("SELECT {}::text").format(sql.SQL(question))).fetchone()
    assert row is not None
    return str(row[0])


def wait_until_it_ended(server: Server) -> None:
    os.close(lock(server.folder, "server"))


def postmaster(server: Server) -> int:
    return int((server.data / "postmaster.pid").read_text().splitlines()[0])


def test_it_is_durable_and_lets_many_in(server: Server) -> None:
    with using(server):
        assert ask(server, "current_setting('fsync')") == "on"
        assert ask(server, "current_setting('max_connections')") == "200"
        assert ask(server, "current_setting('listen_addresses')") == ""


def test_it_ends_after_its_last_user_however_that_ended(server: Server) -> None:
    with using(server) as first, using(server) as second:
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert ask(server, "1") == "1"
        second.send_signal(signal.SIGKILL)
        second.wait()
        wait_until_it_ended(server)


def test_many_processes_at_once_share_one_server(server: Server) -> None:
    users = [start_user(server) for _ in range(8)]
    try:
        assert all(is_held_by(user) for user in users)
        assert ask(server, "1") == "1"
    finally:
        for user in users:
            user.kill()
            user.communicate()
    wait_until_it_ended(server)


def test_data_outlives_the_server(server: Server) -> None:
    with using(server), connect(server) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    wait_until_it_ended(server)
    with using(server):
        assert ask(server, "(SELECT number FROM kept)") == "7"


def test_a_killed_server_is_started_again(server: Server) -> None:
    with using(server):
        killed = postmaster(server)
        with connect(server):
            os.kill(killed, signal.SIGKILL)
            with using(server):
                assert postmaster(server) != killed
                assert ask(server, "1") == "1"


def test_what_was_committed_outlives_a_crash(server: Server) -> None:
    server.hold()
    crashed = postmaster(server)
    with connect(server) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        server.crash()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")

    server.hold()

    assert postmaster(server) != crashed
    assert ask(server, "(SELECT number FROM kept)") == "7"


def test_a_process_that_has_the_id_of_a_killed_server_is_left_alone(server: Server) -> None:
    with using(server):
        account = Account.of(server.folder)
    wait_until_it_ended(server)
    with subprocess.Popen(
        ["/bin/sh", "-c", "read line"],
        stdin=subprocess.PIPE,
        user=account.uid if account.is_other else None,
    ) as heir:
        stale = f"{heir.pid}\n{server.data}\n1\n5432\n{server.socket_folder}\n\n1 1\nready\n"
        (server.data / "postmaster.pid").write_text(stale)
        with using(server):
            assert ask(server, "1") == "1"
        wait_until_it_ended(server)
        assert heir.poll() is None


def test_a_folder_too_deep_for_a_socket_still_works(folder: Path) -> None:
    deep = folder / ("a" * 60) / ("b" * 90)
    deep.mkdir(parents=True)
    server = Server(deep / ".postgres")
    with using(server):
        assert ask(server, "1") == "1"
        assert len(os.fsencode(server.socket_folder / SOCKET)) <= SOCKET_BYTES
    wait_until_it_ended(server)


def test_a_folder_of_somebody_else_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PostgresFailed, match="belongs to another user"):
        server.hold()
