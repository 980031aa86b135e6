"""When a process has worked enough."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ultimate_jobs.conf import Settings
from ultimate_jobs.supervise.recycling import Limits, Recycler, resident_bytes
from ultimate_jobs.worker.stats import WorkerStats


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(), None),
        (Limits(jobs=11), None),
        (Limits(jobs=10), "max-jobs"),
        (Limits(memory=101), None),
        (Limits(memory=100), "max-memory"),
        (Limits(lifetime=timedelta(seconds=61)), None),
        (Limits(lifetime=timedelta(seconds=60)), "max-lifetime"),
        (Limits(jobs=99, memory=99, lifetime=timedelta(seconds=1)), "max-memory"),
    ],
)
def test_the_limit_that_is_reached_is_named(limits: Limits, reason: str | None) -> None:
    assert limits.reached(jobs=10, memory=100, lived=60.0) == reason


class Machine:
    """A clock and a scale that say what they are told to."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.memory = 0
        self.measured = 0

    def measure(self) -> int:
        self.measured += 1
        return self.memory

    def recycler(self, limits: Limits) -> Recycler:
        return Recycler(limits, measure=self.measure, clock=lambda: self.now)


def stats(processed: int, failed: int = 0) -> WorkerStats:
    return WorkerStats("w-1", ["default"], processed=processed, failed=failed)


def test_failed_attempts_count_as_well() -> None:
    recycler = Machine().recycler(Limits(jobs=3))

    assert recycler(stats(2)) is None
    assert recycler(stats(2, failed=1)) == "max-jobs"


def test_memory_is_looked_at_after_a_job_and_not_in_between() -> None:
    machine = Machine()
    recycler = machine.recycler(Limits(memory=50))
    machine.memory = 99

    assert recycler(stats(0)) is None
    assert recycler(stats(0)) is None
    assert machine.measured == 0
    assert recycler(stats(1)) == "max-memory"


def test_memory_is_not_looked_at_when_it_has_no_limit() -> None:
    machine = Machine()
    recycler = machine.recycler(Limits(jobs=5))
    recycler(stats(1))

    assert machine.measured == 0


def test_a_lifetime_begins_with_the_process() -> None:
    machine = Machine()
    recycler = machine.recycler(Limits(lifetime=timedelta(seconds=10)))

    machine.now += 9
    assert recycler(stats(0)) is None
    machine.now += 1
    assert recycler(stats(0)) == "max-lifetime"


def test_the_memory_of_this_process_is_that_of_a_python_with_django() -> None:
    assert 10 * 1024**2 < resident_bytes() < 10 * 1024**3


@pytest.mark.parametrize(
    ("jobs", "prefetch", "ahead"),
    [(None, 500, 500), (4, 500, 0), (1_000, 500, 100), (100_000, 500, 500), (1_000, 0, 0)],
)
def test_a_process_goes_past_its_number_of_jobs_by_no_more_than_a_tenth(
    jobs: int | None, prefetch: int, ahead: int
) -> None:
    assert Limits(jobs=jobs).within(Settings(prefetch=prefetch)).prefetch == ahead
