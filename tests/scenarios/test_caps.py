"""Caps of the fleet while workers freeze and die: never exceeded, never leaked."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import pytest
from django.db.models.functions import Now

from tests.builders import reloaded, sql, states, wait_until
from tests.scenarios.scene import PATIENCE, Process, Scene
from ultimate_jobs.core.keys import lease_key
from ultimate_jobs.models import Counter, Job as JobRow, JobStep, Lease, Worker as WorkerRow

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.django_db(transaction=True),
]


# A worker that freezes


def rows() -> tuple[list[Any], ...]:
    """Read everything that a late body could have changed."""
    return (
        list(JobRow.objects.order_by("id").values()),
        list(JobStep.objects.order_by("run_id", "position").values()),
        list(Counter.objects.order_by("bucket").values()),
        list(Lease.objects.values("lease_key", "slot", "job_id", "claim", "worker")),
    )


@pytest.mark.parametrize("end", ["returns", "raises"])
def test_a_late_body_of_a_capped_job_changes_nothing_and_takes_no_slot_away(
    scene: Scene, end: str
) -> None:
    late = scene.queued("alone", key="late")
    with scene.worker(PROBE_END=end) as frozen, ExitStack() as later:
        scene.wait_for("started")
        frozen.tell(signal.SIGSTOP)
        scene.leases_run_out()

        next_in_line = scene.queued("alone", key="next")
        scene.let_go(attempt=2, key="late")
        other = later.enter_context(scene.worker())
        wait_until(lambda: reloaded(late).state == "done", PATIENCE)
        scene.wait_for("started", times=2)
        scene.wait_for("completed", attempt=0)
        before = rows()
        assert [slot["job_id"] for slot in before[-1]] == [next_in_line.id]

        frozen.tell(signal.SIGCONT)
        scene.let_go(attempt=1, key="late")
        scene.wait_for("finished", attempt=1)
        frozen.tell(signal.SIGTERM)
        assert frozen.ended() == 0
        assert "jobs.settle.unowned" in frozen.log
        assert rows() == before

        scene.let_go(attempt=1, key="next")
        wait_until(lambda: states() == {"done": 2}, PATIENCE)
        other.tell(signal.SIGTERM)
        assert other.ended() == 0, other.log

    moves = [(line["key"], line["what"], line["attempt"]) for line in scene.ledger()]
    assert moves.count(("late", "completed", 0)) == 1
    assert ("late", "refused", 1) in moves
    assert (reloaded(late).result, reloaded(late).attempt) == ("of attempt 2", 2)
    assert [step.output for step in JobStep.objects.filter(job_id=late.id)] == [2]
    assert sum(Counter.objects.values_list("done", flat=True)) == 2
    assert not Lease.objects.exists()


# Workers that are killed

LIMIT = 2
WORKERS = 4
KILLS = 6
JOBS_A_ROUND = 16
STARTED_A_ROUND = 4


@pytest.fixture
def lives() -> Iterator[None]:
    """Keep a table of when bodies began and ended, by the database's clock."""
    sql(
        "CREATE TABLE probe_lives (id bigserial PRIMARY KEY, key text, pid int,"
        " began timestamptz, ended timestamptz)"
    )
    yield
    sql("DROP TABLE probe_lives")


class Fleet:
    """Workers that are killed at random and replaced."""

    def __init__(self, scene: Scene, stack: ExitStack) -> None:
        self._scene = scene
        self._stack = stack
        self._dice = random.Random(4)  # noqa: S311
        self._running: dict[str, Process] = {}
        self._dead: dict[str, tuple[int, datetime]] = {}
        for _ in range(WORKERS):
            self.start()

    def start(self) -> None:
        name = f"w-{len(self._running) + len(self._dead)}"
        worker = self._scene.worker("--name", name)
        self._running[name] = self._stack.enter_context(worker)

    def kill(self) -> None:
        """Kill one, in the middle of a body if any runs one."""
        busy = {pid for (pid,) in sql("SELECT pid FROM probe_lives WHERE ended IS NULL")}
        working = [name for name, process in self._running.items() if process.pid in busy]
        victim = self._dice.choice(working or sorted(self._running))
        process = self._running.pop(victim)
        ((killed_at,),) = sql("SELECT clock_timestamp()")
        process.killed()
        self._dead[victim] = process.pid, killed_at
        self.bury()

    def bury(self) -> None:
        """Let the time be over of whatever the killed hold; the living keep theirs.

        The server may still have ended a statement for one that was dead already.
        """
        for name, (pid, killed_at) in self._dead.items():
            sql(
                "UPDATE probe_lives SET ended = greatest(began, %s)"
                " WHERE ended IS NULL AND pid = %s",
                [killed_at, pid],
            )
            mine = f"{name}:"
            WorkerRow.objects.filter(id__startswith=mine).update(expires_at=Now())
            Lease.objects.filter(worker__startswith=mine).update(expires_at=Now())
            JobRow.objects.filter(state="running", claimed_by__startswith=mine).update(
                visible_at=Now()
            )

    def stop(self) -> None:
        for process in self._running.values():
            process.tell(signal.SIGTERM)
        # One that has only just started may not listen to signals yet.
        well = {0, -signal.SIGTERM}
        assert {process.ended() for process in self._running.values()} <= well


def begun() -> int:
    ((count,),) = sql("SELECT count(*) FROM probe_lives")
    return int(count)


def most_at_once() -> int:
    """Count the bodies of a key that lived at one moment, where those were the most."""
    ((most,),) = sql(
        "SELECT max(others) FROM (SELECT count(*) AS others FROM probe_lives AS a"
        " JOIN probe_lives AS b ON b.key = a.key AND b.began <= a.began AND a.began < b.ended"
        " GROUP BY a.id) AS moments"
    )
    return int(most)


def test_a_cap_holds_and_every_job_ends_although_workers_are_killed(
    scene: Scene, lives: None
) -> None:
    with ExitStack() as stack:
        fleet = Fleet(scene, stack)
        for turn in range(KILLS):
            before = begun()
            for number in range(JOBS_A_ROUND):
                org = "ab"[number % 2]
                key = lease_key("probe.pair", org)
                scene.queued("pair", key=f"{org}-{turn}-{number}", attempts=100, lease_key=key)
            wait_until(lambda: begun() >= before + STARTED_A_ROUND, PATIENCE)  # noqa: B023
            fleet.kill()
            fleet.start()

        def all_done() -> bool:
            fleet.bury()
            return states() == {"done": KILLS * JOBS_A_ROUND}

        wait_until(all_done, 2 * PATIENCE)
        fleet.stop()
        fleet.bury()

    assert not Lease.objects.filter(expires_at__gt=Now()).exists()
    assert not sql("SELECT 1 FROM probe_lives WHERE ended IS NULL")
    assert most_at_once() == LIMIT
