"""Health over a database that goes away and comes back: always live, and not always ready."""

from __future__ import annotations

import http.client
import json
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from testproject.postgres.server import Server
from tests.builders import wait_until
from tests.commands.project import Project
from tests.scenarios.scene import PATIENCE, Process, Scene

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def server() -> Iterator[Server]:
    """Run a PostgreSQL of this test's own.

    Its folder is none of pytest's: those are closed to other accounts whenever a pytest starts.
    """
    with tempfile.TemporaryDirectory(prefix="ultimate_jobs-health-") as folder:
        server = Server(Path(folder) / ".postgres")
        server.hold()
        yield server
        server.stop()


def asked(port: int, path: str) -> tuple[int, dict[str, Any]]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        line.close()


def port_of(process: Process) -> int:
    return int(process.said("jobs.health.listening").rpartition("port=")[2])


@pytest.mark.parametrize(
    "words",
    [
        ["jobs_worker", "--with", "relay"],
        ["jobs_worker", "--processes", "2"],
        ["jobs_relay"],
    ],
    ids=" ".join,
)
def test_a_process_is_live_without_its_database_and_ready_with_it(
    scene: Scene, server: Server, words: list[str]
) -> None:
    where = {"DATABASE_URL": server.url, "DATABASE_NAME": "postgres"}
    assert Project(where).manage("migrate").code == 0
    with scene.running(*words, "--health", "0", **where) as process:
        port = port_of(process)
        wait_until(lambda: asked(port, "/readyz")[0] == 200, PATIENCE)
        status, facts = asked(port, "/livez")
        assert (status, facts["state"], facts["in_flight"]) == (200, "running", 0)
        assert facts["database_seconds"] < PATIENCE

        server.stop()
        wait_until(lambda: not asked(port, "/livez")[1]["ready"], PATIENCE)
        status, facts = asked(port, "/livez")
        assert (status, facts["live"]) == (200, True)
        assert asked(port, "/readyz")[0] == 503

        server.hold()
        wait_until(lambda: asked(port, "/readyz")[0] == 200, PATIENCE)
        process.tell(signal.SIGTERM)
        assert process.ended() == 0


def test_a_child_that_is_gone_makes_its_worker_live_and_not_ready(scene: Scene) -> None:
    with scene.running("jobs_worker", "--processes", "2", "--health", "0") as workers:
        port = port_of(workers)
        wait_until(lambda: asked(port, "/readyz")[0] == 200, PATIENCE)

        def is_gone() -> bool:
            """Kill whoever is there: each time the place stays empty for longer."""
            victim = asked(port, "/livez")[1]["processes"][0]["pid"]
            if victim is not None:
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
            return asked(port, "/readyz")[0] == 503

        wait_until(is_gone, PATIENCE)
        assert asked(port, "/livez")[0] == 200
        wait_until(lambda: asked(port, "/readyz")[0] == 200, PATIENCE)
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 0
