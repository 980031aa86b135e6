"""The server: started by the first process that needs it, stopped after the last."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

from testproject.postgres import programs
from testproject.postgres.account import Account
from testproject.postgres.errors import PostgresFailed
from testproject.postgres.locks import is_at, lock, try_lock

ROOT = Path(__file__).resolve().parent.parent.parent
SOCKET = ".s.PGSQL.5432"
SOCKET_BYTES = 103  # macOS; Linux allows four more
START_SECONDS = 60
STOP_SECONDS = 30
OPTIONS = {"listen_addresses": "", "max_connections": "200"}
INITIAL = ("--username=postgres", "--auth=trust", "--encoding=UTF8")
BUILTIN_LOCALE = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
BUILTIN_SINCE = 17


class Server:
    """One PostgreSQL server in one folder, shared by any number of processes.

    ``options`` are more settings of PostgreSQL; whoever starts the server has the say.
    """

    def __init__(self, folder: Path, options: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._options = OPTIONS | dict(options or {})
        self._log = folder / "log"
        self._users: int | None = None

    @property
    def socket_folder(self) -> Path:
        """Where the socket will be: settings know it without a server."""
        name = f"ultimate_jobs-{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]}"
        candidates = [self.folder / "run", Path(tempfile.gettempdir()) / name]
        return next(filter(_fits_a_socket, candidates), Path("/tmp") / name)  # noqa: S108

    @property
    def url(self) -> str:
        host = urllib.parse.quote(str(self.socket_folder), safe="")
        return f"postgresql://postgres@{host}/postgres"

    @property
    def data(self) -> Path:
        return self.folder / f"data-{programs.major_version()}"

    def hold(self) -> None:
        """Have the server running until this process, and whatever it forks, has ended."""
        Account.of(self.folder).own(self.folder)
        if self._users is None or not is_at(self._users, self.folder / "users.lock"):
            self._users = lock(self.folder, "users", shared=True)
        starting = lock(self.folder, "start")
        try:
            self._ensure_running(starting)
            self._ensure_kept()
        finally:
            os.close(starting)

    def keep(self, keeper: int) -> None:
        """Stop the server once nobody uses it. This is the keeper's whole life."""
        users = lock(self.folder, "users")
        self.stop()
        os.close(keeper)
        os.close(users)

    def stop(self) -> None:
        """End the server if it runs, whoever uses it."""
        if not self.folder.exists():
            return
        self._end(kind_seconds=STOP_SECONDS)
        with contextlib.suppress(OSError):
            self.socket_folder.rmdir()

    def crash(self) -> None:
        """End the server as a loss of power would; `hold` starts it again."""
        self._end(kind_seconds=0)

    def _end(self, *, kind_seconds: float) -> None:
        """Tell the server to end until it has, first kindly and then at once."""
        started = time.monotonic()
        while (server := try_lock(self.folder, "server")) is None:
            is_kind = time.monotonic() < started + kind_seconds
            self._signal(signal.SIGINT if is_kind else signal.SIGQUIT)
            _wait_a_little()
        os.close(server)

    def _ensure_running(self, starting: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while (server := try_lock(self.folder, "server")) is None:
            if not self._run("pg_isready", "-q", "-h", self.socket_folder).returncode:
                return
            # Whoever was starting it was killed, or what a killed server left has yet to end.
            _wait_a_little()
            if time.monotonic() > deadline:
                raise PostgresFailed(f"PostgreSQL runs and does not answer:\n{self._log_tail()}")
        try:
            self._start(server, starting)
        finally:
            os.close(server)

    def _start(self, server: int, starting: int) -> None:
        account = Account.of(self.folder)
        account.open_the_way(self.folder, programs.trees())
        if not self.data.exists():
            self._create(account, starting)
        account.make_private(self.socket_folder)
        # These name a process id, which may be alive again as something else; the free lock knows better.
        for stale in (self.data / "postmaster.pid", self.socket_folder / f"{SOCKET}.lock"):
            stale.unlink(missing_ok=True)
        settings = self._options | {"unix_socket_directories": str(self.socket_folder)}
        options = " ".join(f"-c {shlex.quote(f'{k}={v}')}" for k, v in settings.items())
        where = ("-D", self.data, "-l", self._log)
        wait = ("-w", "-t", str(START_SECONDS))
        done = self._run("pg_ctl", *where, *wait, "-o", options, "start", inherit=server)
        if done.returncode:
            raise PostgresFailed(f"PostgreSQL did not start:\n{done.stdout}{self._log_tail()}")

    def _create(self, account: Account, starting: int) -> None:
        """Make the data aside and rename it, so that it is there whole or not at all."""
        aside = self.folder / "data-new"
        shutil.rmtree(aside, ignore_errors=True)
        account.make_private(aside)
        has_builtin = int(programs.major_version()) >= BUILTIN_SINCE
        locale = BUILTIN_LOCALE if has_builtin else ("--locale=C.UTF-8",)
        done = self._run("initdb", "-D", aside, *INITIAL, *locale, inherit=starting)
        if done.returncode:
            raise PostgresFailed(f"PostgreSQL could not create its data:\n{done.stdout}")
        aside.rename(self.data)

    def _ensure_kept(self) -> None:
        keeper = try_lock(self.folder, "keeper")
        if keeper is None:
            return
        try:
            subprocess.run(
                [sys.executable, "-m", "testproject.postgres", "keep", self.folder, str(keeper)],
                cwd=ROOT,
                pass_fds=[keeper],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
        finally:
            os.close(keeper)

    def _run(
        self, program: str, *arguments: str | Path, inherit: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        return programs.run(self.folder, program, *arguments, inherit=inherit)

    def _signal(self, number: signal.Signals) -> None:
        """Tell the process that listens on the socket; the file with its id may name another one."""
        with socket.socket(socket.AF_UNIX) as line:
            try:
                line.connect(str(self.socket_folder / SOCKET))
            except OSError:
                return
            os.kill(_peer(line), number)

    def _log_tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join([f"{self._log}:", *lines[-20:]])


def _fits_a_socket(folder: Path) -> bool:
    path = str(folder / SOCKET)
    is_plain = re.fullmatch(r"[\w./+-]+", path, re.ASCII) is not None
    return is_plain and len(os.fsencode(path)) <= SOCKET_BYTES


def _peer(line: socket.socket) -> int:
    """Answer the id of the process at the other end."""
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        pid: int = struct.unpack("3i", credentials)[0]
    else:
        pid = line.getsockopt(0, 0x002)  # SOL_LOCAL, LOCAL_PEERPID
    return pid


def _wait_a_little() -> None:
    threading.Event().wait(0.05)
