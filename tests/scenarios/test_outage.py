"""A server that is not there yet, and one that crashes, under a worker, a relay and a scheduler."""

from __future__ import annotations

import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connections, transaction  # noqa: TID251 - a server of the test's own
from django.db.models import Min
from django.db.models.functions import Now
from django.test import override_settings

from testproject.postgres.server import Server
from tests.builders import Ping, declared, sql, wait_until
from tests.commands.project import Project
from tests.scenarios.scene import PATIENCE, Process, Scene
from tests.wake.lines import alias
from ultimate_jobs.models import Job as JobRow, Pause, TaskState, Worker

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.django_db(transaction=True),
]

OWN = "own"
"""The alias of the server that goes away."""

COMMANDS = {
    "jobs_worker": "jobs.worker.tick-failed",
    "jobs_relay": "jobs.outbox.tick-failed",
    "jobs_scheduler": "jobs.scheduler.tick-failed",
}
"""What runs, and what each says when its database does not answer."""

TASKS = [f"probe.minute_{number}" for number in range(5)]
MISSED = 3
TICKS = 20


class Site:
    """A server of the test's own, migrated, with tasks that have missed some minutes."""

    def __init__(self, server: Server) -> None:
        self.server = server
        where = {"DATABASE_URL": server.url, "DATABASE_NAME": "postgres"}
        self.env: Mapping[str, str] = where | {"PROBE_KEEPS_CONNECTIONS": "1"}
        assert Project(where).manage("migrate").code == 0
        for name in TASKS:
            TaskState.objects.using(OWN).create(
                name=name, rule="* * * * * UTC", watermark=Now() - timedelta(minutes=MISSED)
            )
        for name in ("ultimate_jobs.purge", "ultimate_jobs.fold_counters"):
            # A body that uses the database keeps the connection of its thread.
            Pause.objects.using(OWN).create(kind=Pause.Kind.TASK, name=name)

    def crash(self) -> None:
        self.server.crash()
        connections[OWN].close()

    def stop(self) -> None:
        connections[OWN].close()
        self.server.stop()

    def stage(self, name: str, *keys: str) -> None:
        """Stage jobs of the probe in a transaction."""
        with (
            override_settings(ULTIMATE_JOBS={"DATABASE": OWN}),
            declared(name=f"probe.{name}") as handle,
            transaction.atomic(using=OWN),
        ):
            handle.enqueue_many([Ping(key) for key in keys])

    def keys(self, *, name: str = "probe.tick") -> list[str]:
        rows = JobRow.objects.using(OWN).filter(name=name, state="done")
        return list(rows.values_list("idempotency_key", flat=True))

    def fired(self) -> Counter[str]:
        """Count the jobs of every occurrence, by task and instant."""
        rows = JobRow.objects.using(OWN).filter(idempotency_key__startswith="probe.minute_")
        return Counter(rows.values_list("idempotency_key", flat=True))

    def watermark(self) -> float:
        """Answer up to when every task of the probe is taken care of; others are paused."""
        ours = TaskState.objects.using(OWN).filter(name__in=TASKS)
        oldest = ours.aggregate(oldest=Min("watermark"))["oldest"]
        return float(oldest.timestamp())

    def now(self) -> float:
        return float(sql("SELECT extract(epoch FROM clock_timestamp())", using=OWN)[0][0])

    def clients(self) -> list[tuple[int, str]]:
        """Name the clients of the server, this test aside, and what each did last."""
        return sql(
            "SELECT pid, split_part(query, E'\\n', 1) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
            using=OWN,
        )

    def connections_at_rest(self) -> int:
        """Count them once the count has stayed the same for a while."""
        found: list[int] = []

        def rests() -> bool:
            found.append(len(self.clients()))
            return len(found) > 100 and len(set(found[-100:])) == 1

        wait_until(rests, PATIENCE, what="the number of connections to stay")
        return found[-1]


@pytest.fixture
def site() -> Iterator[Site]:
    """Run a PostgreSQL of this test's own, in a folder that no other account closes."""
    with tempfile.TemporaryDirectory(prefix="ultimate_jobs-outage-") as folder:
        server = Server(Path(folder) / ".postgres")
        server.hold()
        host = str(server.socket_folder)
        try:
            with alias(OWN, HOST=host, PORT="", NAME="postgres", USER="postgres", PASSWORD=""):
                yield Site(server)
        finally:
            server.stop()


def started(scene: Scene, site: Site, stack: ExitStack) -> dict[str, Process]:
    """Start one of each."""
    found = {}
    for name in COMMANDS:
        found[name] = stack.enter_context(scene.running(name, **site.env))
        found[name].follow()
    return found


def wait_for_failures(processes: Mapping[str, Process]) -> None:
    for name, process in processes.items():
        process.wait_for_line(COMMANDS[name])


def end_well(processes: Mapping[str, Process], outage: float) -> None:
    """Stop them all; each said now and then that its database was away, and never at length."""
    for process in processes.values():
        process.tell(signal.SIGTERM)
    for name, process in processes.items():
        assert process.ended() == 0, process.log
        troubles = re.findall(r"^\S+ \S+ (?:WARNING|ERROR) .*$", process.log, re.MULTILINE)
        assert len(troubles) <= 20 + outage, f"{name} said:\n{process.log}"
        assert "Traceback" not in process.log


def test_what_starts_before_its_server_waits_for_it_and_then_works(
    scene: Scene, site: Site
) -> None:
    site.stage("tick", *(f"k-{number}" for number in range(TICKS)))
    site.stop()
    with ExitStack() as stack:
        began = time.monotonic()
        processes = started(scene, site, stack)
        wait_for_failures(processes)
        site.server.hold()
        outage = time.monotonic() - began

        wait_until(lambda: len(site.keys()) >= TICKS + MISSED * len(TASKS), PATIENCE)
        end_well(processes, outage)

    assert set(site.fired().values()) == {1}


def test_what_runs_while_its_server_crashes_comes_back_by_itself(scene: Scene, site: Site) -> None:
    before_it = [f"before-{number}" for number in range(TICKS)]
    after_it = [f"after-{number}" for number in range(TICKS)]
    with ExitStack() as stack:
        processes = started(scene, site, stack)
        site.stage("tick", *before_it)
        site.stage("patient", "held")
        wait_until(lambda: len(site.keys()) >= TICKS + MISSED * len(TASKS), PATIENCE)
        scene.wait_for("started")
        for name in ("jobs_worker", "jobs_relay"):
            processes[name].wait_for_line("jobs.wake.live")
        wait_until(Worker.objects.using(OWN).exists, PATIENCE, what="the first sign of life")
        connections_before = site.connections_at_rest()

        began = time.monotonic()
        site.crash()
        wait_for_failures(processes)
        site.server.hold()
        outage = time.monotonic() - began

        back_at = site.now()
        site.stage("tick", *after_it)
        for attempt in range(1, 4):
            scene.let_go(attempt, key="held")
        wait_until(lambda: len(site.keys(name="probe.patient")) == 1, PATIENCE)
        wait_until(lambda: site.watermark() > back_at, PATIENCE, what="a new minute")
        wait_until(lambda: len(site.clients()) == connections_before, PATIENCE, what="as many")
        wait_until(lambda: not JobRow.objects.using(OWN).exclude(state="done").exists(), PATIENCE)
        assert not any(process.ended_already for process in processes.values())
        end_well(processes, outage)

    done = Counter(site.keys())
    assert {done[key] for key in (*before_it, *after_it)} == {1}
    assert set(site.fired().values()) == {1}
    minutes = Counter(key.partition(":")[0] for key in site.fired())
    assert set(minutes) == set(TASKS)
    assert len(set(minutes.values())) == 1, "a task missed a minute that the others have"
    assert minutes[TASKS[0]] >= MISSED + 1
