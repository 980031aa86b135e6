"""Runs that are suspended wherever they can be: every replay that may happen, happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ultimate_jobs.steps.runner import StepRunner


@contextmanager
def every_boundary_suspends() -> Iterator[None]:
    """Suspend every run of this process after each step that it stores, inside the block.

    The run is parked, uncounted and due at once; the next claim enters the body from the top and
    replays up to the next step. A body that passes its tests like this keeps the rules of replay:
    it decides by its input and by stored answers, and has no effects outside of steps.

    A run that was told to stop is not suspended besides, and an unwind goes on in one piece.
    """
    before = StepRunner.suspends_everywhere
    StepRunner.suspends_everywhere = True
    try:
        yield
    finally:
        StepRunner.suspends_everywhere = before
