"""Several worker processes under a supervisor: who dies is replaced, who drains loses nothing."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.builders import Ping, declared, reloaded, staged, states, wait_until
from tests.scenarios.scene import PATIENCE, Process, Scene
from tests.scenarios.test_crashes import stage
from ultimate_jobs.models import Job as JobRow

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.django_db(transaction=True),
]


def pid_of(scene: Scene, line: int = 0) -> int:
    return int(scene.ledger()[line]["pid"])


def test_a_killed_child_is_replaced_and_its_job_runs_again(scene: Scene) -> None:
    row = scene.queued("patient")
    with scene.supervised() as workers:
        scene.wait_for("started")
        before, victim = scene.pids(), pid_of(scene)
        assert victim in before.values()
        assert victim != workers.pid
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: victim not in scene.pids().values(), PATIENCE)
        scene.leases_run_out()
        scene.wait_for("started", attempt=2)
        scene.let_go(attempt=2)
        wait_until(lambda: states() == {"done": 1}, PATIENCE)
        wait_until(lambda: {victim, None}.isdisjoint(scene.pids().values()), PATIENCE)
        after = scene.pids()
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 0

    assert len({*before.items()} & {*after.items()}) == 1, "the other one was left alone"
    assert reloaded(row).attempt == 2
    assert f"pid={victim} code=-9" in workers.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_drains_all_children(scene: Scene, number: signal.Signals) -> None:
    rows = [scene.queued("patient", attempts=1, key=key) for key in ("a", "b")]
    with scene.supervised() as workers:
        scene.wait_for("started", times=2)
        workers.tell(number)
        assert workers.ended() == 0

    assert len({line["pid"] for line in scene.ledger()}) == 2, "each process had one"
    assert [(reloaded(row).state, reloaded(row).attempt) for row in rows] == [("ready", 0)] * 2
    assert scene.health() == {}, "the file goes with its process"


def test_a_body_that_does_not_listen_is_told_by_the_exit_code(scene: Scene) -> None:
    row = scene.queued("stubborn")
    with scene.supervised("--shutdown-timeout", "500ms") as workers:
        scene.wait_for("started")
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 1

    assert "jobs.worker.abandoned" in workers.log
    assert (reloaded(row).state, reloaded(row).attempt) == ("running", 1)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    "numbers",
    [[signal.SIGTERM, signal.SIGTERM], [signal.SIGTERM, signal.SIGINT], [signal.SIGQUIT]],
    ids=lambda numbers: "+".join(number.name for number in numbers),
)
def test_a_second_signal_or_a_sigquit_waits_for_nobody(
    scene: Scene, processes: int, numbers: list[signal.Signals]
) -> None:
    scene.queued("stubborn")
    with scene.supervised(processes=processes) as workers:
        scene.wait_for("started")
        workers.tell(numbers[0])
        scene.wait_for("told X_DRAINING")
        for number in numbers[1:]:
            workers.tell(number)
        assert workers.ended() == 1

    assert "jobs.worker.abandoned" in workers.log


def test_a_signal_that_children_get_twice_hurries_nobody(scene: Scene) -> None:
    """A terminal and a process manager signal the whole group."""
    scene.queued("stubborn")
    with scene.supervised() as workers:
        scene.wait_for("started")
        os.kill(pid_of(scene), signal.SIGTERM)
        workers.tell(signal.SIGTERM)
        scene.wait_for("told X_DRAINING")
        os.kill(pid_of(scene), signal.SIGTERM)
        scene.let_go()
        assert workers.ended() == 0

    assert states() == {"done": 1}


def test_children_drain_when_their_supervisor_is_killed(scene: Scene) -> None:
    rows = [scene.queued("patient", attempts=1, key=key) for key in ("a", "b")]
    with scene.supervised() as workers:
        scene.wait_for("started", times=2)
        workers.killed()  # which also waits until no child writes to its log any more

    assert [(reloaded(row).state, reloaded(row).attempt) for row in rows] == [("ready", 0)] * 2
    assert workers.log.count("jobs.worker.stopped") == 2


def test_a_child_that_is_told_to_stop_drains_and_is_replaced(scene: Scene) -> None:
    scene.queued("patient", attempts=1)
    with scene.supervised(processes=2) as workers:
        scene.wait_for("started")
        told = pid_of(scene)
        os.kill(told, signal.SIGTERM)
        scene.wait_for("started", times=2)
        scene.let_go()
        wait_until(lambda: states() == {"done": 1}, PATIENCE)
        wait_until(lambda: {told, None}.isdisjoint(scene.pids().values()), PATIENCE)
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 0


def test_roles_run_in_a_child_of_their_own_and_are_replaced_too(scene: Scene) -> None:
    with declared(name="probe.tick") as tick, scene.supervised("--with", "relay") as workers:
        stage(tick, "a")
        wait_until(lambda: states() == {"done": 1}, PATIENCE)
        relay = scene.pids()["relay"]
        assert relay is not None
        os.kill(relay, signal.SIGKILL)
        stage(tick, "b")
        wait_until(lambda: states() == {"done": 2}, PATIENCE)
        wait_until(lambda: scene.pids()["relay"] not in (None, relay), PATIENCE)
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 0

    assert staged() == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_no_socket_crosses_a_fork(scene: Scene, tmp_path: Path) -> None:
    with scene.supervised("--with", "relay", PROBE_CONNECTS="1") as workers:
        assert (tmp_path / "connected").exists(), "the supervisor had a connection"
        family = [workers.pid, *(pid for pid in scene.pids().values() if pid is not None)]
        sockets = [sockets_of(pid) for pid in family]
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 0

    assert len(family) == 4
    assert sockets[0] == set(), "it was closed before the first fork"
    assert all(sockets[1:]), "each child has its own"
    assert len(set.union(*sockets)) == sum(map(len, sockets)), "and shares it with nobody"


def sockets_of(pid: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed in between
            found.add(str(descriptor.readlink()))
    return {target for target in found if target.startswith("socket:")}


# Quiet, and what runs


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTSTP])
def test_a_quiet_worker_finishes_what_it_has_and_claims_nothing(
    scene: Scene, processes: int, number: signal.Signals
) -> None:
    first = scene.queued("patient")
    with scene.supervised(processes=processes) as workers:
        scene.wait_for("started")
        workers.tell(number)
        scene.wait_for_health(live=True, ready=False, state="quiet", in_flight=1)
        second = scene.queued("patient", key="b")
        scene.let_go()
        scene.wait_for_health(state="quiet", in_flight=0, processed=1)
        assert not workers.ended_already
        assert (reloaded(first).state, reloaded(second).state) == ("done", "ready")
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 0


def test_a_child_that_takes_the_place_of_a_quiet_one_is_quiet(scene: Scene) -> None:
    with scene.supervised() as workers:
        workers.tell(signal.SIGUSR1)
        scene.wait_for_health(state="quiet")
        victim = scene.pids()["worker-1"]
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: {victim, None}.isdisjoint(scene.pids().values()), PATIENCE)
        scene.wait_for_health(state="quiet")
        row = scene.queued("tick")
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 0

    assert reloaded(row).state == "ready"
    assert workers.log.count("jobs.worker.quiet") == 3


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGTTIN])
def test_a_worker_says_what_it_runs_and_where_it_stands(
    scene: Scene, processes: int, number: signal.Signals
) -> None:
    row = scene.queued("stubborn")
    with scene.supervised(processes=processes) as workers:
        scene.wait_for("started")
        workers.tell(number)
        held = workers.said("jobs.worker.holds")
        scene.let_go()
        wait_until(lambda: states() == {"done": 1}, PATIENCE)
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 0

    assert f"id={row.id} name=probe.stubborn" in held


def test_the_stacks_name_the_line_at_which_a_body_stands(scene: Scene) -> None:
    scene.queued("stubborn")
    with scene.supervised(processes=1) as workers:
        scene.wait_for("started")
        workers.tell(signal.SIGUSR2)
        assert "in stubborn" in workers.said("tests/scenarios/probe/jobs.py")
        scene.let_go()
        wait_until(lambda: states() == {"done": 1}, PATIENCE)
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 0


# Processes that have worked enough


def ticks(count: int) -> None:
    with declared(name="probe.tick") as tick:
        tick.enqueue_many([Ping(f"k-{n:02}") for n in range(count)])


def test_a_worker_ends_by_itself_after_so_many_jobs_and_leaves_the_rest(scene: Scene) -> None:
    ticks(20)
    with scene.worker("--max-jobs", "3") as worker:
        assert worker.ended() == 0

    assert "reason=max-jobs" in worker.log
    counts = states()
    assert counts["done"] >= 3
    assert counts["done"] + counts["ready"] == 20
    assert counts["ready"] > 0


@pytest.mark.parametrize(
    ("option", "limit"), [("--max-memory", "1M"), ("--max-lifetime", "1ms"), ("--max-jobs", "1")]
)
def test_every_limit_ends_a_worker_cleanly(scene: Scene, option: str, limit: str) -> None:
    ticks(1)
    with scene.worker(option, limit) as worker:
        assert worker.ended() == 0

    assert f"reason={option.removeprefix('--')}" in worker.log
    assert JobRow.objects.filter(state="running").count() == 0


def test_children_that_have_worked_enough_are_replaced_and_nothing_is_lost(scene: Scene) -> None:
    with scene.supervised("--max-jobs", "4") as workers:
        ticks(40)
        wait_until(lambda: states() == {"done": 40}, PATIENCE)
        workers.tell(signal.SIGTERM)
        assert workers.ended() == 0

    assert sorted(line["key"] for line in scene.ledger()) == [f"k-{n:02}" for n in range(40)]
    assert len({line["pid"] for line in scene.ledger()}) > 4
    assert workers.log.count("reason=max-jobs") > 4


# The environment


def test_the_environment_sets_what_no_flag_says(scene: Scene, tmp_path: Path) -> None:
    health = str(tmp_path / "health")
    with scene.running("jobs_worker", JOBS_PROCESSES="2", JOBS_HEALTH=health) as workers:
        scene.wait_for_health(ready=True)
        assert set(scene.pids()) == {"worker-1", "worker-2"}
        ended_well(workers)


def ended_well(process: Process) -> None:
    process.tell(signal.SIGTERM)
    assert process.ended() == 0
