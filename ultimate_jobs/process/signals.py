"""SIGTERM and SIGINT: stop, then hurry."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping(stop: Callable[[str], None], hurry: Callable[[str], None]) -> Iterator[None]:
    """Call ``stop(name)`` on the first SIGTERM or SIGINT inside the block, ``hurry`` on others.

    The functions run in the main thread between two bytecodes: they may set flags and put to a
    ``SimpleQueue``, nothing that takes a lock.
    """
    told = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal told
        name = signal.Signals(number).name
        (hurry if told else stop)(name)
        told = True

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
