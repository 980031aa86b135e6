"""``make bench`` measures every scenario; what it finds is not looked at here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.figures import parsed
from benchmarks.suite import ALL

ROOT = Path(__file__).resolve().parent.parent.parent
KEYS = {"scenario", "value", "unit", "min", "max", "limit", "ratio", "settings"}


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.scenario
@pytest.mark.timeout(900)
def test_every_scenario_is_measured_beside_its_limit() -> None:
    done = bench("--scale", "0.0005", "--repeat", "1", "--only", ",".join(ALL))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all(json.loads(line).keys() == KEYS for line in lines)
    found = parsed(lines)
    assert len(found) == len(lines)
    assert list(dict.fromkeys(name for name, _ in found)) == list(ALL)
    for one in found.values():
        assert one.limit is not None or one.scenario == "cost", one
        assert one.min <= one.value <= one.max, one
    assert "| drain " in done.stderr


def test_a_scenario_that_nobody_knows_is_refused_before_anything_is_started() -> None:
    done = bench("--only", "drain,no_such_thing")
    assert done.returncode == 2
    assert "no scenario is called no_such_thing" in done.stderr
    assert "growth_waiting" in done.stderr
