"""What an idle minute costs, counted in statements, on a clock that only waiting moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty
from typing import Any

import pytest

from tests.builders import Declarations
from tests.worker.running import Statement, recorded
from ultimate_jobs.conf import Settings
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.process.bell import Bell
from ultimate_jobs.process.wake import PROBE_EVERY
from ultimate_jobs.worker.loop import Worker
from ultimate_jobs.worker.messages import Stop, WakeChanged

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = 60.0
WARM = 60.0
"""Seconds in which an idle loop has come to rest."""


class Clock:
    """A monotonic clock that only waiting moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Inbox:
    """The dispatcher's messages: none but the first, and a stop when the time is over."""

    def __init__(self, clock: Clock, *messages: Any, seconds: float) -> None:
        self._clock = clock
        self._messages = list(messages)
        self._seconds = seconds

    def put(self, message: Any) -> None:
        self._messages.append(message)

    def get(self, timeout: float) -> Any:
        if self._messages:
            return self._messages.pop(0)
        self._clock.now += timeout
        if self._clock.now >= self._seconds:
            return Stop()
        raise Empty

    def get_nowait(self) -> Any:
        raise Empty


class Rest(Bell):
    """A bell that nobody rings, until the time is over."""

    def __init__(self, clock: Clock, seconds: float, end: Callable[[], None]) -> None:
        super().__init__()
        self._clock = clock
        self._seconds = seconds
        self._end = end

    def wait(self, seconds: float) -> bool:
        self._clock.now += seconds
        if self._clock.now >= self._seconds:
            self._end()
        return False


def in_the_last_minute(statements: list[Statement], word: str) -> int:
    return len([text for when, text in statements if when >= WARM and word in text])


def claims_of_an_idle_minute(clock: Clock, known: Registry, *messages: Any) -> int:
    worker = Worker(get_driver(), known, Settings(), queues=["a", "b", "c"])
    inbox: Any = Inbox(clock, *messages, seconds=WARM + MINUTE)
    worker._inbox = inbox
    statements: list[Statement] = []
    with recorded(statements):
        worker.run()
    return in_the_last_minute(statements, "Take due rows for a worker")


def passes_of_an_idle_minute(clock: Clock, *, live: bool) -> int:
    relay = Relay(get_driver(), Settings())
    relay.trust_wake(live)
    relay._bell = Rest(clock, WARM + MINUTE, relay.stop)
    statements: list[Statement] = []
    with recorded(statements):
        relay.run()
    assert len(statements) == len(
        [text for _, text in statements if "One pass of the relay" in text]
    )
    return in_the_last_minute(statements, "One pass of the relay")


@pytest.fixture
def known(declare: Declarations) -> Registry:
    known = Registry()
    known.add(declare())
    return known


def test_an_idle_worker_that_is_told_claims_twelve_times_a_minute(
    clock: Clock, known: Registry
) -> None:
    assert 0 < claims_of_an_idle_minute(clock, known, WakeChanged(live=True)) <= 12


def test_an_idle_worker_that_is_not_told_claims_thirty_times_a_minute(
    clock: Clock, known: Registry
) -> None:
    assert 12 < claims_of_an_idle_minute(clock, known) <= 30


def test_an_idle_worker_that_lost_the_wake_claims_as_if_it_had_none(
    clock: Clock, known: Registry
) -> None:
    told = [WakeChanged(live=True), WakeChanged(live=False)]

    assert 12 < claims_of_an_idle_minute(clock, known, *told) <= 30


def test_an_idle_relay_passes_as_seldom_as_a_worker(clock: Clock) -> None:
    assert 0 < passes_of_an_idle_minute(clock, live=True) <= 12


def test_an_idle_relay_that_is_not_told_passes_thirty_times_a_minute(clock: Clock) -> None:
    assert 12 < passes_of_an_idle_minute(clock, live=False) <= 30


def test_an_idle_minute_of_a_worker_is_twenty_transactions(clock: Clock, known: Registry) -> None:
    claims = claims_of_an_idle_minute(clock, known, WakeChanged(live=True))
    signs_of_life = MINUTE / Settings().beat_every.total_seconds()
    probes = MINUTE / PROBE_EVERY

    assert claims + signs_of_life + probes <= 20
