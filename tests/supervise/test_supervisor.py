"""A supervisor over children that need no database: replacing, giving up, reaping, killing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testproject.postgres.server import ROOT
from tests.builders import PATIENCE, wait_until

pytestmark = [pytest.mark.scenario, pytest.mark.slow, pytest.mark.timeout(120)]

PROGRAM = """
import logging, os, signal, sys, threading
from pathlib import Path

import django
django.setup()

from ultimate_jobs.errors import ConfigInvalid
from ultimate_jobs.process.signals import STOP, handling
from ultimate_jobs.supervise import supervisor
from ultimate_jobs.supervise.supervisor import Place, Supervisor

supervisor.MARGIN = {seconds}
folder = Path(sys.argv[1])

def lives():
    return len(list(folder.glob("life-*")))

def note():
    (folder / f"life-{os.getpid()}").touch()

def wait():
    told = threading.Event()
    with handling(dict.fromkeys((*STOP, signal.SIGQUIT), lambda name: told.set())):
        print("up", flush=True)
        told.wait()
    return 0

{works}

places = [Place(name, work) for name, work in WORKS.items()]
sys.exit(
    Supervisor(places, close=lambda: None, drain_seconds={seconds}, ready_within=9.0).run()
)
"""


@contextmanager
def supervisor(
    folder: Path, works: str, *, seconds: float = PATIENCE
) -> Iterator[subprocess.Popen[str]]:
    """Run the program; children get so many seconds, twice, before they are killed."""
    program = PROGRAM.replace("{works}", works).replace("{seconds}", str(seconds))
    popen = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "testproject.settings"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with popen:
        try:
            yield popen
        finally:
            popen.kill()


def up(popen: subprocess.Popen[str]) -> None:
    assert popen.stdout is not None
    assert popen.stdout.readline() == "up\n"


def ended(popen: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = popen.communicate(timeout=3 * PATIENCE)
    return popen.returncode, said


def test_a_child_that_fails_is_started_again_until_it_lives(tmp_path: Path) -> None:
    works = """
def third_time_lucky(parent):
    note()
    return wait() if lives() == 3 else 1

WORKS = {"a": third_time_lucky}
"""
    with supervisor(tmp_path, works) as popen:
        up(popen)
        popen.send_signal(signal.SIGTERM)
        code, said = ended(popen)

    assert code == 0, "what failed before the drain is not what the code tells"
    assert len(list(tmp_path.iterdir())) == 3
    assert [said.count(f"next_start_seconds={wait}") for wait in (0.5, 1.0)] == [1, 1]


def test_a_child_that_raises_says_so_and_is_started_again(tmp_path: Path) -> None:
    works = """
def breaks_once(parent):
    note()
    if lives() == 1:
        raise LookupError("no luck")
    return wait()

WORKS = {"a": breaks_once}
"""
    with supervisor(tmp_path, works) as popen:
        up(popen)
        popen.send_signal(signal.SIGTERM)
        code, said = ended(popen)

    assert code == 0
    assert "LookupError: no luck" in said


@pytest.mark.parametrize(
    "refusal", ["return 2", "raise SystemExit(2)", "raise ConfigInvalid('not like this')"]
)
def test_a_child_that_refuses_to_start_ends_all_with_its_code(tmp_path: Path, refusal: str) -> None:
    works = f"""
def refuses(parent):
    {refusal}

WORKS = {{"a": lambda parent: wait(), "b": refuses}}
"""
    with supervisor(tmp_path, works) as popen:
        assert ended(popen)[0] == 2


def test_a_child_that_ends_badly_in_the_drain_is_told_by_the_code(tmp_path: Path) -> None:
    works = """
WORKS = {"a": lambda parent: wait() or 1}
"""
    with supervisor(tmp_path, works) as popen:
        up(popen)
        popen.send_signal(signal.SIGTERM)
        assert ended(popen)[0] == 1


def test_a_child_that_does_not_end_is_killed_in_the_end(tmp_path: Path) -> None:
    works = """
def deaf(parent):
    with handling(dict.fromkeys((*STOP, signal.SIGQUIT), lambda name: None)):
        print("up", flush=True)
        while True:
            signal.pause()

WORKS = {"a": deaf}
"""
    with supervisor(tmp_path, works, seconds=0.5) as popen:
        up(popen)
        popen.send_signal(signal.SIGTERM)
        code, said = ended(popen)

    assert code == 1
    assert "code=-9" in said


def test_a_signal_during_the_start_of_a_child_is_not_lost(tmp_path: Path) -> None:
    works = """
def slow(parent):
    note()
    while not (folder / "go").exists():
        threading.Event().wait(0.01)
    return wait()

WORKS = {"a": slow}
"""
    with supervisor(tmp_path, works) as popen:
        wait_until(lambda: list(tmp_path.glob("life-*")), 3 * PATIENCE)
        popen.send_signal(signal.SIGTERM)
        assert popen.stderr is not None
        assert any("jobs.supervisor.stopping" in line for line in popen.stderr)
        (tmp_path / "go").touch()
        code, said = ended(popen)

    assert (code, "code=-15" in said) == (0, False), said


def test_a_fork_that_fails_is_tried_again(tmp_path: Path) -> None:
    works = """
fork, refusals = os.fork, iter([1, 2])

def refused_at_first():
    if next(refusals, None) is None:
        return fork()
    raise OSError("no room")

os.fork = refused_at_first
WORKS = {"a": lambda parent: wait()}
"""
    with supervisor(tmp_path, works) as popen:
        up(popen)
        popen.send_signal(signal.SIGTERM)
        code, said = ended(popen)

    assert (code, said.count("jobs.supervisor.fork-failed")) == (0, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_the_first_process_buries_strangers_too(tmp_path: Path) -> None:
    works = """
stranger = os.fork()
if stranger == 0:
    os._exit(0)
print(stranger, flush=True)
WORKS = {"a": lambda parent: wait()}
"""
    with supervisor(tmp_path, works) as popen:
        assert popen.stdout is not None
        stranger = int(popen.stdout.readline())
        up(popen)
        wait_until(lambda: not Path(f"/proc/{stranger}").exists())
        popen.send_signal(signal.SIGTERM)
        assert ended(popen)[0] == 0


def test_a_supervisor_that_is_killed_takes_nobody_along_and_is_noticed(tmp_path: Path) -> None:
    works = """
def follows(parent):
    with parent.followed(list):
        code = wait()
    (folder / "noticed").touch()
    return code

WORKS = {"a": follows, "b": lambda parent: follows(parent)}
"""
    with supervisor(tmp_path, works) as popen:
        up(popen)
        up(popen)
        popen.kill()
        ended(popen)  # nobody holds its output any more: both have ended

    assert (tmp_path / "noticed").exists()
