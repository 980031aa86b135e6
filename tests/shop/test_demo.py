"""The demo, as it is run by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from testproject.postgres.server import ROOT

pytestmark = [pytest.mark.scenario, pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_demo_loses_nothing_doubles_nothing_and_keeps_nothing_back() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "testproject.demo"],
        cwd=ROOT,
        env=os.environ | {"DEMO_KEEP": "", "DEMO_SECONDS": "800", "VISIBILITY_TIMEOUT": "15s"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(done.stdout.splitlines()[-1])
    assert verdict.pop("seconds") > 0
    assert verdict.pop("interrupted_and_resumed") > 0
    assert verdict["compensated"] > 0
    assert verdict.pop("completed") + verdict.pop("compensated") == 900
    assert verdict == {
        "sent": 1000,
        "committed": 900,
        "rolled_back": 100,
        "ghosts": 0,
        "lost": 0,
        "duplicates": 0,
        "charged_twice": 0,
        "uncompensated": 0,
        "worker_killed": True,
    }
