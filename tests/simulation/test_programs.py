"""Random programs do on PostgreSQL what the rules say, also when their workers die on the way."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, settings

from tests.simulation.oracle import Oracle
from tests.simulation.playing import play
from tests.simulation.programs import Program, loaded, programs

EXAMPLES = int(os.environ.get("ULTIMATE_JOBS_EXAMPLES", "60"))
REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))

pytestmark = [pytest.mark.django_db, pytest.mark.counts_claims]


def check(program: Program) -> None:
    assert asdict(play(program)) == asdict(Oracle(program).play())


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(program=programs())
def test_a_random_program_does_what_the_rules_say(program: Program) -> None:
    note(f"Keep it in tests/simulation/regressions:\n{program.dumped()}")
    check(program)


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_a_program_that_went_wrong_once_goes_right(path: Path) -> None:
    check(loaded(path.read_text(encoding="utf-8")))
