"""A pulse: what a loop promises, and what it does."""

from __future__ import annotations

from ultimate_jobs.process.pulse import Pulse, Vitals


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def test_a_loop_that_has_not_begun_is_starting_and_gets_overdue() -> None:
    clock = Clock()
    pulse = Pulse("worker", clock)
    assert pulse.read() == Vitals("worker", "starting", 0.0, database=False, database_seconds=None)

    clock.now += 7
    assert pulse.read().overdue_seconds == 7.0


def test_a_loop_is_on_time_until_its_promise_is_over() -> None:
    clock = Clock()
    pulse = Pulse("relay", clock)
    pulse.turn(10.0, state="draining", in_flight=2, processed=9)

    clock.now += 10
    kept = pulse.read()
    clock.now += 1
    broken = pulse.read()

    assert (kept.loop, kept.state, kept.in_flight, kept.processed) == ("relay", "draining", 2, 9)
    assert (kept.overdue_seconds, broken.overdue_seconds) == (0.0, 1.0)

    pulse.turn(0.0)
    assert (pulse.read().overdue_seconds, pulse.read().state) == (0.0, "running")


def test_the_last_answer_of_the_database_is_remembered_through_its_silence() -> None:
    clock = Clock()
    pulse = Pulse("worker", clock)
    pulse.answered()
    clock.now += 3
    assert (pulse.read().database, pulse.read().database_seconds) == (True, 3.0)

    pulse.unanswered()
    clock.now += 4
    assert (pulse.read().database, pulse.read().database_seconds) == (False, 7.0)

    pulse.answered()
    assert (pulse.read().database, pulse.read().database_seconds) == (True, 0.0)
