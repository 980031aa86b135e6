"""The listening session as a rule: when it is probed, believed, given up, and dialled again.

The driver here keeps the contract by hand, over a clock that only waiting moves.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.builders import PATIENCE, wait_until
from ultimate_jobs.core.records import Notice, Topic
from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.process.wake import (
    ANSWER_WITHIN,
    PROBE_EVERY,
    Listener,
    Probe,
    Subscriber,
)

MINUTE = 60.0


class Line:
    """A session, and the network behind it: what it does to probes, and when it ends."""

    def __init__(self, until: float, echo: Callable[[str], list[Notice]]) -> None:
        self.now = 0.0
        self.until = until
        self.renounced = False
        self.closed = False
        self._echo = echo
        self._come: list[Notice] = []

    def receive(self, seconds: float) -> list[Notice]:
        if not self._come:
            self.now += max(seconds, 0.0)
        if self.now >= self.until:
            raise Unreachable("the end of the test")
        come, self._come = self._come, []
        return come

    def send(self, token: str) -> None:
        self._come += self._echo(token)

    def interrupt(self) -> None: ...

    def renounce(self) -> None:
        self.renounced = True

    def close(self) -> None:
        self.closed = True


def over(*topics: Topic) -> Callable[[str], list[Notice]]:
    return lambda token: [Notice(topic, token) for topic in topics]


class Told:
    """A loop that notes what it is told."""

    def __init__(self) -> None:
        self.queues: list[str] = []
        self.live: list[bool] = []

    def of(self, topic: Topic) -> Subscriber:
        return Subscriber(topic, self.queues.append, self.live.append)


class Attempt(Listener):
    """A listener whose probes are sent when they are due, and whose clock is the line's."""

    def __init__(self, line: Line, *told: Subscriber, sends: bool = True) -> None:
        super().__init__(driver=None, subscribers=told)  # type: ignore[arg-type]
        self.line = line
        self.sent: list[float] = []
        self._sends = sends

    def _new_probe(self) -> Any:
        probe = super()._new_probe()
        if self._sends:
            self.sent.append(self.line.now)
            probe.sent = True
            self.line.send(probe.token)
        return probe

    def listen(self) -> float:
        """Listen until the line ends or is given up; answer the wait before the next try."""
        try:
            return self._hear(self.line)
        except Unreachable as error:
            return self._lost(error)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Line], None]:
    def follow(line: Line) -> None:
        clock = SimpleNamespace(monotonic=lambda: line.now)
        monkeypatch.setattr("ultimate_jobs.process.wake.time", clock)

    return follow


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.DEBUG, "ultimate_jobs"):
        yield lambda: [getattr(record, "event", "") for record in caplog.records]


def test_an_idle_minute_costs_two_probes(clock: Callable[[Line], None]) -> None:
    line = Line(10 * MINUTE, over(*Topic))
    clock(line)
    attempt = Attempt(line)
    attempt.listen()

    assert len(attempt.sent) == 10 * MINUTE / PROBE_EVERY


def test_word_is_believed_once_a_probe_came_back_over_both_channels(
    clock: Callable[[Line], None], said: Callable[[], list[str]]
) -> None:
    line, told = Line(MINUTE, over(*Topic)), Told()
    clock(line)
    Attempt(line, told.of(Topic.JOBS)).listen()

    assert told.live == [True, False]
    assert said() == ["jobs.wake.live", "jobs.wake.lost"]


@pytest.mark.parametrize("heard", [[], [Topic.JOBS], [Topic.OUTBOX]])
def test_a_channel_on_which_nothing_comes_back_is_not_believed(
    clock: Callable[[Line], None], said: Callable[[], list[str]], heard: list[Topic]
) -> None:
    line, told = Line(MINUTE, over(*heard)), Told()
    clock(line)
    attempt = Attempt(line, told.of(Topic.JOBS))
    waits = [attempt.listen(), attempt.listen()]

    assert told.live == []
    assert said() == ["jobs.wake.unverified"], "once in the life of a process"
    assert waits == [PROBE_EVERY, 2 * PROBE_EVERY]
    assert line.now == 2 * ANSWER_WITHIN
    assert line.renounced


def test_a_session_on_which_probes_stop_coming_back_is_given_up_soon(
    clock: Callable[[Line], None], said: Callable[[], list[str]]
) -> None:
    answers = [over(*Topic), over(*Topic), over()]

    def echo(token: str) -> list[Notice]:
        return answers.pop(0)(token)

    line, told = Line(MINUTE * 5, echo), Told()
    clock(line)
    wait = Attempt(line, told.of(Topic.OUTBOX)).listen()

    assert line.now == 2 * PROBE_EVERY + ANSWER_WITHIN
    assert wait == 0.5
    assert told.live == [True, False]
    assert said() == ["jobs.wake.live", "jobs.wake.lost"]


def test_a_pool_that_lets_no_probe_through_is_not_blamed_on_a_proxy(
    clock: Callable[[Line], None], said: Callable[[], list[str]]
) -> None:
    line = Line(MINUTE, over())
    clock(line)
    Attempt(line, sends=False).listen()

    assert said() == ["jobs.wake.lost"]


def test_everybody_is_told_of_his_own_topic_and_nobody_of_probes(
    clock: Callable[[Line], None],
) -> None:
    line, jobs, outbox = Line(20, over(*Topic)), Told(), Told()
    clock(line)
    attempt = Attempt(line, jobs.of(Topic.JOBS), outbox.of(Topic.OUTBOX))
    stranger = "f" * 400
    line._come += [
        Notice(Topic.JOBS, "mail"),
        Notice(Topic.OUTBOX, "default"),
        Notice(Topic.JOBS, stranger),
        Notice(Topic.OUTBOX, stranger),
        Notice(Topic.JOBS, "q" * 200),
    ]
    attempt.listen()

    assert jobs.queues == ["mail", "q" * 200]
    assert outbox.queues == ["default"]


def test_a_session_that_comes_and_goes_is_dialled_with_growing_waits(
    clock: Callable[[Line], None], said: Callable[[], list[str]]
) -> None:
    line = Line(0, over())
    clock(line)
    attempt = Attempt(line)

    assert [attempt.listen() for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert said() == ["jobs.wake.lost"], "once in a row of failures"


class Wake:
    """A database that refuses to be listened to."""

    def __init__(self, error: Exception) -> None:
        self.dialled = threading.Semaphore(0)
        self._error = error

    @property
    def wake(self) -> Wake:
        return self

    def listen(self) -> Line:
        self.dialled.release()
        raise self._error

    def probe(self, token: str) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "name"),
    [(Unreachable(), "jobs.wake.lost"), (ValueError(), "jobs.wake.unverified")],
)
def test_who_cannot_listen_says_so_and_stops_when_told(
    said: Callable[[], list[str]], error: Exception, name: str
) -> None:
    driver = Wake(error)
    listener = Listener(driver, ())  # type: ignore[arg-type]
    listener.start()
    assert driver.dialled.acquire(timeout=PATIENCE)
    wait_until(lambda: name in said())
    began = time.monotonic()
    listener.stop()

    assert time.monotonic() - began < PROBE_EVERY
    assert not any(thread.is_alive() for thread in listener._threads)
    assert not listener.live


class Resting(Wake):
    """A pool whose connection was closed while it rested."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__(ValueError())
        self.tokens: list[str] = []
        self._failures = list(failures)

    def probe(self, token: str) -> None:
        if self._failures:
            raise self._failures.pop()
        self.tokens.append(token)

    def between_passes(self) -> None: ...


def test_a_probe_whose_connection_was_closed_at_rest_is_sent_again() -> None:
    driver, probe = Resting(Unreachable()), Probe(asked_at=0.0)
    Listener(driver, ())._send(probe)  # type: ignore[arg-type]

    assert driver.tokens == [probe.token]
    assert probe.sent


def test_a_probe_that_cannot_be_sent_twice_over_was_not_sent() -> None:
    driver, probe = Resting(Unreachable(), Unreachable()), Probe(asked_at=0.0)
    with pytest.raises(Unreachable):
        Listener(driver, ())._send(probe)  # type: ignore[arg-type]

    assert not probe.sent
