"""The table of mutants fits the project: each edit can be made, and each named test exists."""

from __future__ import annotations

import pytest

from tests.mutations.__main__ import ROOT
from tests.mutations.mutants import MUTANTS, Mutant

every_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)


@every_mutant
def test_an_edit_can_be_made_in_one_place(mutant: Mutant) -> None:
    text = (ROOT / "ultimate_jobs" / mutant.file).read_text(encoding="utf-8")

    assert text.count(mutant.old) == 1
    assert mutant.old != mutant.new


@every_mutant
def test_its_tests_exist(mutant: Mutant) -> None:
    assert mutant.tests
    for path in mutant.tests:
        assert (ROOT / "tests" / path).exists()


def test_no_rule_is_broken_twice() -> None:
    assert len({mutant.breaks for mutant in MUTANTS}) == len(MUTANTS)
    assert len({(m.file, m.old, m.new) for m in MUTANTS}) == len(MUTANTS)
