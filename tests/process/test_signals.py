"""Signals: the first one stops, every other one hurries, and the process gets its own back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from testproject.postgres.server import ROOT
from ultimate_jobs.process.signals import DUMP, dumping_stacks, handling, stopping

BOTH = [signal.SIGTERM, signal.SIGINT]


class Told:
    """What was called, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def stop(self, name: str) -> None:
        self.calls.append(("stop", name))

    def hurry(self, name: str) -> None:
        self.calls.append(("hurry", name))


@pytest.mark.parametrize("number", BOTH)
def test_the_first_signal_stops_and_says_which_it_was(number: signal.Signals) -> None:
    told = Told()
    with stopping(told.stop, told.hurry):
        assert not told.calls
        signal.raise_signal(number)
        assert told.calls == [("stop", number.name)]


def test_every_other_signal_hurries_whichever_it_is() -> None:
    told = Told()
    with stopping(told.stop, told.hurry):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    assert told.calls == [("stop", "SIGTERM"), ("hurry", "SIGINT"), ("hurry", "SIGTERM")]


def test_a_second_block_is_stopped_by_its_own_first_signal() -> None:
    told = Told()
    for _ in range(2):
        with stopping(told.stop, told.hurry):
            signal.raise_signal(signal.SIGTERM)

    assert told.calls == [("stop", "SIGTERM"), ("stop", "SIGTERM")]


def test_the_handlers_of_the_process_are_put_back() -> None:
    before = [signal.getsignal(number) for number in BOTH]
    with stopping(Told().stop, Told().hurry):
        assert [signal.getsignal(number) for number in BOTH] != before

    assert [signal.getsignal(number) for number in BOTH] == before


def test_a_block_that_raises_puts_the_handlers_back_too() -> None:
    before = [signal.getsignal(number) for number in BOTH]
    with pytest.raises(ZeroDivisionError), stopping(Told().stop, Told().hurry):
        _ = 1 / 0

    assert [signal.getsignal(number) for number in BOTH] == before


def test_a_signal_after_the_block_is_the_processs_own_again() -> None:
    told = Told()
    with stopping(told.stop, told.hurry):
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)

    assert not told.calls


def test_a_signal_that_was_blocked_is_let_in() -> None:
    told: list[str] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        signal.raise_signal(signal.SIGUSR1)
        assert told == []
        with handling({signal.SIGUSR1: told.append}):
            assert told == ["SIGUSR1"]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.parametrize("number", DUMP)
def test_stacks_are_written_and_then_something_else_is_done(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    also: list[str] = []
    with dumping_stacks(also.append):
        signal.raise_signal(number)

    assert "test_stacks_are_written" in capfd.readouterr().err
    assert also == [number.name]
    assert signal.getsignal(number) == before


LOOP = """
from ultimate_jobs.process.bell import Bell
from ultimate_jobs.process.signals import DUMP, dumping_stacks, handling, stopping

bell = Bell()
names = []

def ring(name):
    names.append(name)
    bell.ring()

with stopping(ring, ring):
    print("waiting", flush=True)
    for _ in range(2):
        assert bell.wait(120)
        print(names.pop(0), flush=True)
print("ended")
"""


@pytest.mark.scenario
def test_a_signal_from_outside_ends_the_wait_of_a_loop() -> None:
    loop = subprocess.Popen(
        [sys.executable, "-c", LOOP], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with loop:
        assert loop.stdout is not None
        assert loop.stdout.readline() == "waiting\n"
        os.kill(loop.pid, signal.SIGTERM)
        assert loop.stdout.readline() == "SIGTERM\n"
        os.kill(loop.pid, signal.SIGINT)
        assert loop.stdout.readline() == "SIGINT\n"
        assert loop.stdout.read() == "ended\n"

    assert loop.returncode == 0
