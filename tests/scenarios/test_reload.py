"""``--reload``: new code is run, what runs is drained first, and broken code is waited for."""

from __future__ import annotations

import itertools
import os
import signal
import time
from pathlib import Path

import pytest

from tests.builders import a_job, reloaded, states, wait_until
from tests.scenarios.scene import PATIENCE, Process, Scene

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.django_db(transaction=True),
]

JOBS = """
from __future__ import annotations

from pathlib import Path

from tests.scenarios.probe.jobs import DECLARED, Probe
from ultimate_jobs import Run, job

{first}


@job(**DECLARED)
def say(run: Run[Probe]) -> str:
    return "{answer}"
"""


class Code:
    """An app whose code changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "changing" / "jobs.py"
        self._seconds = itertools.count(1)
        self._path.parent.mkdir()
        (self._path.parent / "__init__.py").touch()
        (folder / "changing_settings.py").write_text(
            "from tests.scenarios.settings import *\n\nINSTALLED_APPS += ['changing']\n", "utf-8"
        )

    def says(self, answer: str, first: str = "") -> None:
        self._path.write_text(JOBS.format(answer=answer, first=first), encoding="utf-8")
        self._touch()

    def touch_now_and_then(self) -> None:
        """Change it once more: the watcher may have looked at it for the first time just now.

        Not too often: every change ends the process that has come up since the last one.
        """
        if time.monotonic() > self._touched + PATIENCE / 3:
            self._touch()

    def _touch(self) -> None:
        self._touched = time.monotonic()
        since = self._path.stat().st_mtime + next(self._seconds)
        os.utime(self._path, (since, since))

    def environment(self) -> dict[str, str]:
        return {
            "DJANGO_SETTINGS_MODULE": "changing_settings",
            "PYTHONPATH": os.pathsep.join([str(self._folder), os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def comes_to_say(self, answer: str) -> None:
        """Wait until the job answers this."""

        def says_it() -> bool:
            key = f"{answer}-{next(self._seconds)}"
            row = a_job(name="changing.say", idempotency_key=key, input={"key": key})
            wait_until(lambda: reloaded(row).state == "done", 2 * PATIENCE)
            self.touch_now_and_then()
            return reloaded(row).result == answer

        wait_until(says_it, 2 * PATIENCE, what=f"the answer {answer!r}")


@pytest.fixture
def code(tmp_path: Path) -> Code:
    code = Code(tmp_path)
    code.says("one")
    return code


def ended_well(process: Process) -> None:
    process.tell(signal.SIGTERM)
    assert process.ended() == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_new_code_runs_after_what_runs_has_been_drained(
    scene: Scene, code: Code, processes: str
) -> None:
    words = ("--reload", "--processes", processes)
    with scene.worker(*words, **code.environment()) as worker:
        code.comes_to_say("one")
        held = scene.queued("patient", attempts=1)
        scene.wait_for("started")
        code.says("two")
        wait_until(lambda: _again(scene, code), 2 * PATIENCE, what="a second start")
        code.comes_to_say("two")
        scene.let_go()
        wait_until(lambda: reloaded(held).state == "done", PATIENCE)
        ended_well(worker)

    first, second = scene.ledger()[0], scene.ledger()[1]
    assert (first["attempt"], second["attempt"]) == (1, 1), "it was given back"
    assert first["pid"] != second["pid"]
    assert states().keys() == {"done"}


def _again(scene: Scene, code: Code) -> bool:
    if scene.moves().count(("started", 1)) > 1:
        return True
    code.touch_now_and_then()
    return False


def test_code_that_breaks_is_waited_for(scene: Scene, code: Code, tmp_path: Path) -> None:
    mark = tmp_path / "broken"
    with scene.worker("--reload", **code.environment()) as worker:
        code.comes_to_say("one")
        code.says("two", first=f"Path({str(mark)!r}).touch(); raise LookupError")
        wait_until(lambda: _was_run(mark, code), 2 * PATIENCE, what="the broken code")
        code.says("three")
        code.comes_to_say("three")
        ended_well(worker)


def _was_run(mark: Path, code: Code) -> bool:
    if mark.exists():
        return True
    code.touch_now_and_then()
    return False


def test_a_reloading_worker_passes_on_what_it_is_told(scene: Scene, code: Code) -> None:
    row = scene.queued("stubborn")
    with scene.worker("--reload", **code.environment()) as worker:
        scene.wait_for("started")
        worker.tell(signal.SIGTERM)
        scene.wait_for("told X_DRAINING")
        worker.tell(signal.SIGTERM)
        assert worker.ended() == 1

    assert reloaded(row).state == "running"


def test_a_worker_drains_when_what_reloads_it_is_killed(scene: Scene, code: Code) -> None:
    row = scene.queued("patient", attempts=1)
    with scene.worker("--reload", **code.environment()) as worker:
        scene.wait_for("started")
        worker.killed()

    assert (reloaded(row).state, reloaded(row).attempt) == ("ready", 0)
