"""How a loop waits: a bell that ends a wait, and the length of the waits."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

from tests.builders import PATIENCE
from ultimate_jobs.process.bell import Bell
from ultimate_jobs.process.idle import Backoff, IdleWait

AT_ONCE = 0.005
"""Seconds: a wait this short has passed before anybody could ring."""


def an_idle_wait(base: float = 1, ceiling: float = 8) -> IdleWait:
    return IdleWait(timedelta(seconds=base), timedelta(seconds=ceiling))


# Bell


def test_a_wait_that_nobody_ends_lasts_its_time_and_says_so() -> None:
    began = time.monotonic()

    assert not Bell().wait(0.05)
    assert time.monotonic() - began >= 0.05


def test_a_ring_from_another_thread_ends_the_wait_in_progress() -> None:
    bell = Bell()
    waits = threading.Event()
    rung: list[bool] = []

    def wait() -> None:
        waits.set()
        rung.append(bell.wait(10 * PATIENCE))

    waiter = threading.Thread(target=wait)
    waiter.start()
    waits.wait(PATIENCE)
    bell.ring()
    waiter.join(PATIENCE)

    assert rung == [True]


def test_a_ring_before_the_wait_ends_the_next_one() -> None:
    bell = Bell()
    bell.ring()
    began = time.monotonic()

    assert bell.wait(10 * PATIENCE)
    assert time.monotonic() - began < PATIENCE


def test_however_often_it_was_rung_it_ends_one_wait() -> None:
    bell = Bell()
    for _ in range(3):
        bell.ring()

    assert bell.wait(PATIENCE)
    assert not bell.wait(AT_ONCE)


def test_a_wait_of_no_time_is_over_at_once() -> None:
    assert not Bell().wait(0)


# Idle wait


def test_an_empty_pass_doubles_the_wait_up_to_the_ceiling() -> None:
    idle = an_idle_wait(base=1, ceiling=5)

    assert [idle.after(found=False) for _ in range(5)] == [1, 2, 4, 5, 5]


def test_a_pass_that_found_work_goes_back_to_the_base() -> None:
    idle = an_idle_wait(base=1, ceiling=8)
    for _ in range(3):
        idle.after(found=False)

    assert idle.after(found=True) == 1
    assert idle.after(found=True) == 1
    assert [idle.after(found=False) for _ in range(2)] == [1, 2]


def test_a_ceiling_below_the_base_shortens_no_wait() -> None:
    idle = an_idle_wait(base=4, ceiling=1)

    assert [idle.after(found=False) for _ in range(3)] == [4, 4, 4]


# Backoff


def test_failures_in_a_row_wait_from_half_a_second_doubled_up_to_ten() -> None:
    backoff = Backoff()

    assert [backoff.failed() for _ in range(7)] == [0.5, 1, 2, 4, 8, 10, 10]


def test_a_success_starts_the_backoff_over() -> None:
    backoff = Backoff(first=1, most=3)
    waits = [backoff.failed() for _ in range(3)]
    backoff.worked()

    assert [*waits, backoff.failed()] == [1, 2, 3, 1]


@pytest.mark.parametrize("failures", [0, 1, 5])
def test_a_backoff_that_worked_forgets_any_number_of_failures(failures: int) -> None:
    backoff = Backoff()
    for _ in range(failures):
        backoff.failed()
    backoff.worked()

    assert backoff.failed() == 0.5


# Wake


def test_a_wake_starts_a_ramp_that_leads_back_to_the_base() -> None:
    idle = an_idle_wait(base=0.25, ceiling=2)
    for _ in range(6):
        idle.after(found=False)
    idle.woken()

    waits = [idle.after(found=False) for _ in range(9)]

    assert waits == [0.02, 0.04, 0.08, 0.16, 0.25, 0.5, 1, 2, 2]


def test_while_woken_passes_find_work_they_stay_close_together() -> None:
    idle = an_idle_wait(base=0.25)
    idle.woken()

    assert [idle.after(found=True) for _ in range(3)] == [0.02] * 3
    assert [idle.after(found=False) for _ in range(3)] == [0.02, 0.04, 0.08]
    assert idle.after(found=True) == 0.02


def test_a_ramp_that_is_over_is_forgotten() -> None:
    idle = an_idle_wait(base=0.25)
    idle.woken()
    for _ in range(5):
        idle.after(found=False)

    assert idle.after(found=True) == 0.25


def test_a_wake_lengthens_no_wait() -> None:
    idle = an_idle_wait(base=0.001, ceiling=0.001)
    idle.woken()

    assert idle.after(found=False) == 0.001


def test_the_ceiling_is_the_long_one_only_while_word_is_proven_to_arrive() -> None:
    idle = IdleWait(timedelta(seconds=1), timedelta(seconds=2), timedelta(seconds=5))

    assert [idle.after(found=False) for _ in range(3)] == [1, 2, 2]
    idle.trust(live=True)
    assert [idle.after(found=False) for _ in range(3)] == [2, 4, 5]
    idle.trust(live=False)
    assert [idle.after(found=False) for _ in range(2)] == [2, 2]


def test_the_long_ceiling_is_never_the_shorter_one() -> None:
    idle = IdleWait(timedelta(seconds=1), timedelta(seconds=8), timedelta(seconds=5))
    idle.trust(live=True)

    assert [idle.after(found=False) for _ in range(5)] == [1, 2, 4, 8, 8]
