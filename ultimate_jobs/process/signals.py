"""Signals of a long-running process: which function each one calls, and the dump of all stacks."""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

Reaction = Callable[[str], None]
"""Takes the signal's name. It runs in the main thread between two bytecodes: it may set flags and
put to a ``SimpleQueue``, nothing that takes a lock."""

STOP = (signal.SIGTERM, signal.SIGINT)
QUIET = (signal.SIGTSTP, signal.SIGUSR1)
DUMP = (signal.SIGTTIN, signal.SIGUSR2)

_STANDARD_ERROR = 2


@contextmanager
def handling(reactions: Mapping[signal.Signals, Reaction]) -> Iterator[None]:
    """Call ``reactions[number](name)`` on each of these signals inside the block.

    Signals that were blocked until now, as they are in a process that was just forked, are let in.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        known = signal.Signals(number)
        reactions[known](known.name)

    before = {number: signal.signal(number, handle) for number in reactions}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, reactions)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_then_hurry(stop: Reaction, hurry: Reaction) -> dict[signal.Signals, Reaction]:
    """Let the first SIGTERM or SIGINT call ``stop``, and every other one ``hurry``."""
    told = False

    def react(name: str) -> None:
        nonlocal told
        (hurry if told else stop)(name)
        told = True

    return dict.fromkeys(STOP, react)


@contextmanager
def stopping(stop: Reaction, hurry: Reaction) -> Iterator[None]:
    """Call ``stop(name)`` on the first SIGTERM or SIGINT inside the block, ``hurry`` on others."""
    with handling(stop_then_hurry(stop, hurry)):
        yield


@contextmanager
def dumping_stacks(also: Reaction = lambda name: None) -> Iterator[None]:
    """Write the stacks of all threads to standard error on SIGTTIN and SIGUSR2, then call ``also``.

    The stacks are written even while the main thread is stuck outside Python.
    """
    with handling(dict.fromkeys(DUMP, also)):
        for number in DUMP:
            faulthandler.register(number, file=_STANDARD_ERROR, all_threads=True, chain=True)
        try:
            yield
        finally:
            for number in DUMP:
                faulthandler.unregister(number)
