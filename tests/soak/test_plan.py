"""What the soak plans: the same again from the same seed, with some of everything."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

import pytest

from testproject.soak.chaos import FREEZES, KILLS, RESTARTS, Moment, endless_moments, moments
from testproject.soak.plan import KINDS, ROUND_SECONDS, Length, Planned, plan


def planned(seed: int, jobs: int = 2_000) -> list[Planned]:
    return list(plan(jobs, Random(seed)))  # noqa: S311


def goes_wrong(seed: int) -> list[Moment]:
    return moments(Random(seed))  # noqa: S311


def test_a_seed_repeats_it() -> None:
    assert planned(1) == planned(1) != planned(2)
    assert goes_wrong(1) == goes_wrong(1) != goes_wrong(2)


@pytest.mark.parametrize("jobs", [1, 19, 20, 21, 2_000])
def test_it_commits_as_many_jobs_as_it_is_told(jobs: int) -> None:
    committed = [key for one in planned(1, jobs) if not one.rolls_back for key, _ in one.kinds()]

    assert len(committed) == len(set(committed)) == jobs


def test_every_kind_is_among_them_and_some_transactions_roll_back() -> None:
    made = planned(1)
    kinds = Counter(kind for one in made for _, kind in one.kinds())

    assert kinds.keys() == KINDS.keys()
    assert sum(kind.percent for kind in KINDS.values()) == 100
    assert 0 < sum(one.rolls_back for one in made) < len(made) / 5


def test_no_key_is_planned_twice() -> None:
    keys = [key for one in planned(1) for key, _ in one.kinds()]

    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("seed", range(20))
def test_everything_goes_wrong_while_there_is_work(seed: int) -> None:
    found = goes_wrong(seed)

    assert found == sorted(found)
    assert Counter(moment.what for moment in found) == {
        "kill": KILLS,
        "freeze": FREEZES,
        "restart": RESTARTS,
    }
    assert all(0 < moment.share < 0.95 for moment in found)


def test_without_a_number_of_jobs_work_and_what_goes_wrong_never_end() -> None:
    dice = Random(1)  # noqa: S311
    work = list(islice(plan(None, dice), 1_000))
    wrong = list(islice(endless_moments(dice), 3 * (FREEZES + KILLS + RESTARTS)))

    assert len({one.key for one in work}) == 1_000
    assert wrong == sorted(wrong)
    assert Counter(int(moment.share) for moment in wrong) == {n: len(wrong) // 3 for n in range(3)}


def test_chaos_ends_when_its_time_is_over_and_nothing_goes_wrong_afterwards() -> None:
    chaos = Length(None, seconds=2 * ROUND_SECONDS, patience=10)

    assert [chaos.rounds(0, passed) for passed in (0, ROUND_SECONDS, 99 * ROUND_SECONDS)] == [
        0,
        1,
        2,
    ]
    assert [chaos.is_enough(passed) for passed in (0, chaos.seconds)] == [False, True]
    assert chaos.limit == chaos.seconds + 10


def test_a_soak_is_measured_by_its_jobs() -> None:
    soak = Length(200)

    assert soak.rounds(100, 1_000.0) == 0.5
    assert not soak.is_enough(1_000.0)
