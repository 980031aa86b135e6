"""How an orchestrator asks: over HTTP, by a file, and of a loop that must not wait for it."""

from __future__ import annotations

import http.client
import json
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.builders import PATIENCE, wait_until
from tests.worker.running import Events
from ultimate_jobs.errors import ConfigInvalid
from ultimate_jobs.process.log import logger
from ultimate_jobs.supervise.health import Health
from ultimate_jobs.supervise.probes import (
    At,
    Doorkeeper,
    HealthFile,
    HealthServer,
    health_at,
    shown,
)

LOCAL = At("127.0.0.1", 0)


class Patient:
    """A source of health that can be changed."""

    def __init__(self) -> None:
        self.live = self.ready = True

    def __call__(self) -> Health:
        return Health(self.live, self.ready, {"live": self.live, "ready": self.ready})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("8080", At("127.0.0.1", 8080)),
        ("0", At("127.0.0.1", 0)),
        ("0.0.0.0:8080", At("0.0.0.0", 8080)),  # noqa: S104 - what an orchestrator needs
        ("localhost:1", At("localhost", 1)),
        ("[::1]:8080", At("::1", 8080)),
        ("/run/jobs/health", Path("/run/jobs/health")),
        ("alive", Path("alive")),
        ("./8080", Path("8080")),
        ("C:/alive:80", Path("C:/alive:80")),
    ],
)
def test_a_place_for_the_health_is_read(text: str, wanted: At | Path) -> None:
    assert health_at(text) == wanted


@pytest.mark.parametrize("text", ["", "  ", "65536", "localhost:99999", "/run/"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a port"):
        health_at(text)


# HTTP


@contextmanager
def on_thread(source: Patient) -> Iterator[int]:
    events = Events()
    logger.addHandler(events)
    try:
        with shown(LOCAL, source):
            yield events.named("jobs.health.listening")[0]["port"]
    finally:
        logger.removeHandler(events)


def asked(port: int, path: str, method: str = "GET") -> tuple[int, Any]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        line.request(method, path)
        answer = line.getresponse()
        body = answer.read()
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.status, json.loads(body) if body else None
    finally:
        line.close()


def test_both_questions_have_their_own_answer() -> None:
    patient = Patient()
    with on_thread(patient) as port:
        assert asked(port, "/livez") == (200, {"live": True, "ready": True})
        assert asked(port, "/readyz?verbose") == (200, {"live": True, "ready": True})
        patient.ready = False
        assert asked(port, "/livez")[0] == 200
        assert asked(port, "/readyz") == (503, {"live": True, "ready": False})
        patient.live = False
        assert asked(port, "/livez") == (503, {"live": False, "ready": False})
        assert asked(port, "/livez", "HEAD") == (503, None)
        assert asked(port, "/") == (404, {})


def test_an_answer_names_no_versions() -> None:
    with on_thread(Patient()) as port, socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        head = line.makefile("rb").read().decode().lower()

    assert "python" not in head
    assert "basehttp" not in head


def test_a_port_that_is_taken_is_refused_with_its_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigInvalid, match=f"cannot listen on 127.0.0.1:{port}"):
            HealthServer(At("127.0.0.1", port), Patient())


# A file


def test_a_file_is_fresh_while_live_and_old_when_stuck(tmp_path: Path) -> None:
    path = tmp_path / "health"
    patient = Patient()
    file = HealthFile(path, patient)
    assert json.loads(path.read_text("utf-8")) == {"live": True, "ready": True}
    first = path.stat()

    patient.ready = False
    file.write()
    assert json.loads(path.read_text("utf-8")) == {"live": True, "ready": False}
    assert path.stat().st_ino != first.st_ino, "it is replaced whole"
    before = path.stat()

    patient.live = False
    file.write()
    assert path.stat() == before

    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"cannot write .+ No such file"):
        HealthFile(tmp_path / "nowhere" / "health", Patient())


def test_a_folder_that_goes_away_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    file = HealthFile(folder / "health", Patient())
    (folder / "health").unlink()
    folder.rmdir()

    file.refresh()
    folder.mkdir()
    file.refresh()

    assert (folder / "health").exists()


def test_a_file_is_touched_again_and_again_and_goes_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "health"
    with shown(path, Patient()):
        first = path.stat().st_ino
        wait_until(lambda: path.stat().st_ino != first)

    assert not path.exists()


def test_nothing_is_shown_where_nobody_asked() -> None:
    before = threading.active_count()
    with shown(None, Patient()):
        assert threading.active_count() == before


# From a loop that does other things


class Loop:
    """A loop that answers visitors on this thread, as a supervisor does."""

    def __init__(self, source: Patient) -> None:
        self._selector = selectors.PollSelector()
        server = HealthServer(LOCAL, source)
        self.door = Doorkeeper(server, self._selector)
        self.port = server.server_port

    def turn(self, seconds: float = PATIENCE) -> int:
        ready = self._selector.select(seconds)
        for key, _ in ready:
            key.data()
        return len(ready)

    def visitor(self) -> socket.socket:
        line = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        self.turn()  # lets it in
        return line

    def close(self) -> None:
        self.door.close()
        self._selector.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop(Patient())
    yield loop
    loop.close()


def test_a_visitor_with_a_whole_request_is_served_and_gone(loop: Loop) -> None:
    with loop.visitor() as line:
        line.sendall(b"GET /readyz HTTP/1.1\r\nHost: here\r\n\r\n")
        loop.turn()
        assert line.makefile("rb").readline().split()[1] == b"200"

    assert loop.turn(0) == 0, "nothing is left to look at"


@pytest.mark.parametrize("part", [b"GET /livez HT", b"\x16\x03\x01", b""])
def test_a_visitor_with_less_is_sent_away_at_once(loop: Loop, part: bytes) -> None:
    with loop.visitor() as line:
        line.sendall(part) if part else line.shutdown(socket.SHUT_WR)
        loop.turn()
        with suppress(ConnectionResetError):  # what it had sent was not read
            assert line.recv(1) == b""

    assert loop.turn(0) == 0


def test_a_visitor_who_says_nothing_is_sent_away_in_the_end(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ultimate_jobs.supervise.probes.REQUEST_SECONDS", 0.0)
    with loop.visitor() as silent:
        loop.door.send_late_away()
        assert silent.recv(1) == b""


def test_a_silent_visitor_keeps_nobody_waiting(loop: Loop) -> None:
    with loop.visitor(), loop.visitor() as second:
        second.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        loop.turn()
        assert second.makefile("rb").readline().split()[1] == b"200"
