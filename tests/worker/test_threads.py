"""Body threads: whoever is called works the line off, and never more are at work than may be."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.builders import PATIENCE, wait_until
from tests.worker.running import Gate, at_least
from ultimate_jobs.worker.threads import BodyThreads


@pytest.fixture
def threads() -> Iterator[BodyThreads]:
    threads = BodyThreads(lambda: None, lambda: None, most=3)
    yield threads
    threads.close()


class Done:
    """What was done, in order, and on which threads."""

    def __init__(self) -> None:
        self.things: list[object] = []
        self.threads: set[str] = set()

    def do(self, thing: object) -> bool:
        self.threads.add(threading.current_thread().name)
        self.things.append(thing)
        return True


def test_one_call_is_enough_for_the_whole_line(threads: BodyThreads) -> None:
    done = Done()
    threads.line_up(done.do, range(100))
    assert threads.waiting == 100

    threads.staff(1)

    wait_until(at_least(100, done.things))
    assert done.things == list(range(100))
    assert len(done.threads) == 1
    wait_until(lambda: threads.busy == 0)


def test_nobody_works_who_was_not_called(threads: BodyThreads) -> None:
    done = Done()

    threads.line_up(done.do, range(3))

    assert threads.busy == 0
    assert threads.withdraw(done.do) == [0, 1, 2]
    assert threads.waiting == 0


def test_what_must_start_goes_before_what_waits_and_gets_a_thread_each(
    threads: BodyThreads, gate: Gate
) -> None:
    waited = Done()

    def hold(thing: object) -> bool:
        gate.hold()
        return True

    threads.line_up(waited.do, range(5))
    threads.start(hold, ["a", "b", "c"])

    gate.arrived(3)
    assert waited.things == []
    assert threads.busy == 3
    gate.open()
    wait_until(at_least(5, waited.things))


def test_what_waits_behind_a_long_task_goes_to_the_next_thread(
    threads: BodyThreads, gate: Gate
) -> None:
    done = Done()

    def hold(thing: object) -> bool:
        gate.hold()
        return True

    threads.line_up(hold, ["long"])
    threads.staff(1)
    gate.arrived()
    threads.line_up(done.do, range(5))
    assert threads.waiting == 5

    threads.staff(1)

    wait_until(at_least(5, done.things))


def test_never_more_are_at_work_than_may_be(threads: BodyThreads, gate: Gate) -> None:
    def hold(thing: object) -> bool:
        gate.hold()
        return True

    threads.line_up(hold, range(9))
    for _ in range(5):
        threads.staff(9)

    gate.arrived(3)
    assert threads.busy == 3
    assert threads.waiting == 6


def test_a_thread_that_is_lost_is_replaced_and_ends_after_its_task(
    threads: BodyThreads, gate: Gate
) -> None:
    ended = threading.Event()
    started: list[threading.Thread] = []

    def never(thing: object) -> bool:
        started.append(threading.current_thread())
        gate.hold()
        ended.set()
        return False

    threads.start(never, ["a"])
    gate.arrived()

    threads.lost("a")
    assert threads.busy == 0

    done = Done()
    threads.start(done.do, [1])
    wait_until(at_least(1, done.things))
    gate.open()
    assert ended.wait(PATIENCE)
    started[0].join(PATIENCE)
    assert not started[0].is_alive()


def test_a_thread_greets_and_says_goodbye() -> None:
    said: list[str] = []
    threads = BodyThreads(lambda: said.append("welcome"), lambda: said.append("goodbye"))

    threads.start(lambda thing: True, [1])
    wait_until(lambda: threads.busy == 0)
    threads.close()

    wait_until(lambda: said == ["welcome", "goodbye"])


def test_what_is_withdrawn_leaves_what_waits_for_another_task(threads: BodyThreads) -> None:
    done, others = Done(), Done()
    threads.line_up(others.do, ["a"])
    threads.line_up(done.do, [0, 1])
    threads.line_up(others.do, ["b"])

    assert threads.withdraw(done.do) == [0, 1]

    wait_until(at_least(2, others.things))
    assert sorted(map(str, others.things)) == ["a", "b"]
    assert (done.things, threads.waiting) == ([], 0)
