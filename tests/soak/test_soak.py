"""The soak, smaller than it is run by hand, and with all the time it may need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from testproject.postgres.server import ROOT
from testproject.soak.audit import RULES
from testproject.soak.chaos import FREEZES, KILLS, RESTARTS
from tests.docs.test_docs_reference import page, rows, section, spans

pytestmark = [pytest.mark.scenario, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def figures() -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "testproject.soak"],
        cwd=ROOT,
        env=os.environ | {"SOAK_JOBS": "600", "SOAK_SECONDS": "900"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("SOAK_SEED=")
    return json.loads(done.stdout.splitlines()[-1])


def test_no_rule_is_broken_whatever_went_wrong(figures: Any) -> None:
    assert figures["broken"] == []
    assert figures["committed"] == figures["jobs"] == 600
    assert figures["rolled_back"] > 0
    assert (figures["kills"], figures["freezes"], figures["restarts"]) == (KILLS, FREEZES, RESTARTS)


def test_no_migration_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"],
        cwd=ROOT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "testproject.soak.settings"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_its_figures_and_rules_are_documented(figures: Any) -> None:
    documented = {
        name
        for row in rows(section(page("CONTRIBUTING.md"), "## The soak"))
        for name in spans(row[0])
    }

    assert documented == {*figures, *(rule.__name__ for rule in RULES)}
