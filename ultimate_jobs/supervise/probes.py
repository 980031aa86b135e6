"""How an orchestrator asks for the health: over HTTP, or by the age of a file."""

from __future__ import annotations

import json
import logging
import os
import re
import selectors
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from ultimate_jobs.errors import ConfigInvalid
from ultimate_jobs.process.log import event
from ultimate_jobs.supervise.health import REPORT_EVERY, Health

Source = Callable[[], Health]

LOOPBACK = "127.0.0.1"
REQUEST_SECONDS = 2.0
"""Seconds an orchestrator gets to send its request."""

_HEAD_BYTES = 8192
_PORT = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[^/:]+):)?(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class At:
    """Where HTTP is answered; port 0 is any that is free."""

    host: str
    port: int


def health_at(text: str) -> At | Path:
    """Read ``8080``, ``HOST:PORT`` or the path of a file.

    Raises:
        ValueError: it is none of them. The text says why.

    """
    found = _PORT.fullmatch(text)
    if found is None:
        if not text.strip() or text.endswith("/"):
            raise ValueError("must be a port, HOST:PORT, or the path of a file")
        return Path(text)
    port = int(found["port"])
    if port > 65_535:
        raise ValueError("must be a port up to 65535")
    return At((found["host"] or LOOPBACK).strip("[]"), port)


# HTTP


class _Answer(BaseHTTPRequestHandler):
    """Answers ``/livez`` and ``/readyz``: 200 or 503, with the same document."""

    timeout = REQUEST_SECONDS
    server: HealthServer

    def do_GET(self) -> None:
        """Answer one question."""
        health = self.server.source()
        good = {"/livez": health.live, "/readyz": health.ready}.get(self.path.partition("?")[0])
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        if good is None:
            status = HTTPStatus.NOT_FOUND
        body = json.dumps({} if good is None else health.document).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def version_string(self) -> str:
        """Name no versions."""
        return "ultimate_jobs"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Say nothing: it is asked every few seconds."""


class HealthServer(HTTPServer):
    """Listens from the moment it is made.

    Raises:
        ConfigInvalid: it cannot listen there.

    """

    def __init__(self, at: At, source: Source) -> None:
        self.source = source
        self.address_family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
        try:
            super().__init__((at.host, at.port), _Answer)
        except OSError as error:
            raise ConfigInvalid(
                f"--health: cannot listen on {at.host}:{at.port}: {error.strerror}.",
                fix="Name a port that is free.",
            ) from error
        event(logging.INFO, "jobs.health.listening", host=self.server_name, port=self.server_port)

    def server_bind(self) -> None:
        """Bind without asking the resolver for the machine's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a visitor who hangs up go."""


class HealthFile:
    """A file whose age is the liveness: written while the process is live, removed at its end.

    Raises:
        ConfigInvalid: it cannot be written.

    """

    def __init__(self, path: Path, source: Source) -> None:
        self._path = path
        self._source = source
        try:
            self.write()
        except OSError as error:
            raise ConfigInvalid(
                f"--health: cannot write {path}: {error.strerror}.",
                fix="Name a file in a folder that exists and may be written.",
            ) from error

    def write(self) -> None:
        """Put the document in place whole, unless something is stuck."""
        health = self._source()
        if not health.live:
            return
        aside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        aside.write_text(json.dumps(health.document) + "\n", encoding="utf-8")
        aside.replace(self._path)

    def refresh(self) -> None:
        """Write again; a disk that is full for a moment ends nothing."""
        try:
            self.write()
        except OSError as error:
            event(logging.WARNING, "jobs.health.write-failed", error=type(error).__name__)

    def remove(self) -> None:
        """Leave nothing that could pass for alive."""
        self._path.unlink(missing_ok=True)


# Visitors


class Doorkeeper:
    """Answers HTTP from a loop that does other things: no thread, and no visitor is waited for.

    A visitor is served once a whole request is there, and sent away when the first part that comes
    is none, or when nothing comes.
    """

    def __init__(self, server: HealthServer, selector: selectors.BaseSelector) -> None:
        self._server = server
        self._selector = selector
        self._waiting: dict[socket.socket, float] = {}
        server.socket.setblocking(False)
        selector.register(server.socket, selectors.EVENT_READ, self._let_in)

    def close(self) -> None:
        """Stop listening, and send everybody away."""
        for visitor in list(self._waiting):
            self._send_away(visitor)
        self._selector.unregister(self._server.socket)
        self._server.server_close()

    def forget(self) -> None:
        """Close this process's copies, in a forked child; the supervisor's stay as they are."""
        for visitor in self._waiting:
            visitor.close()
        self._server.server_close()

    def send_late_away(self) -> None:
        """End the visits in which nothing came."""
        now = time.monotonic()
        for visitor, until in list(self._waiting.items()):
            if now >= until:
                self._send_away(visitor)

    def _let_in(self) -> None:
        with suppress(OSError):
            visitor, _ = self._server.get_request()
            visitor.setblocking(False)
            self._waiting[visitor] = time.monotonic() + REQUEST_SECONDS
            self._selector.register(visitor, selectors.EVENT_READ, lambda: self._serve(visitor))

    def _serve(self, visitor: socket.socket) -> None:
        try:
            if b"\r\n\r\n" in visitor.recv(_HEAD_BYTES, socket.MSG_PEEK):
                self._server.finish_request(visitor, visitor.getpeername())
        except OSError:
            pass  # hung up
        finally:
            self._send_away(visitor)

    def _send_away(self, visitor: socket.socket) -> None:
        del self._waiting[visitor]
        self._selector.unregister(visitor)
        self._server.shutdown_request(visitor)


# On a thread of its own


@contextmanager
def shown(at: At | Path | None, source: Source) -> Iterator[None]:
    """Show the health inside the block, on a thread of its own."""
    if at is None:
        yield
    elif isinstance(at, At):
        with _answered(HealthServer(at, source)):
            yield
    else:
        with _refreshed(HealthFile(at, source)):
            yield


@contextmanager
def _answered(server: HealthServer) -> Iterator[None]:
    ended, end = os.pipe()
    with _thread(lambda: _answer_until(ended, server)):
        try:
            yield
        finally:
            os.close(end)


def _answer_until(ended: int, server: HealthServer) -> None:
    with selectors.PollSelector() as selector:
        door = Doorkeeper(server, selector)
        selector.register(ended, selectors.EVENT_READ)
        while True:
            ready = [key for key, _ in selector.select(REQUEST_SECONDS)]
            if any(key.fd == ended for key in ready):
                break
            for key in ready:
                key.data()
            door.send_late_away()
        door.close()
        os.close(ended)


@contextmanager
def _refreshed(file: HealthFile) -> Iterator[None]:
    ended = threading.Event()
    with _thread(lambda: _refresh_until(ended, file)):
        try:
            yield
        finally:
            ended.set()
    file.remove()


def _refresh_until(ended: threading.Event, file: HealthFile) -> None:
    while not ended.wait(REPORT_EVERY):
        file.refresh()


@contextmanager
def _thread(work: Callable[[], None]) -> Iterator[None]:
    """Do something else beside the block, and wait for its end."""
    thread = threading.Thread(target=work, name="ultimate_jobs-health", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
