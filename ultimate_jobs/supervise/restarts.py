"""What becomes of a place whose child has ended. Pure: an exit code and a span in, a decision out."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_WAIT = 0.5
"""Seconds before a child that failed is replaced for the first time; doubled for every other."""

LONGEST_WAIT = 30.0
"""Seconds that the wait never exceeds."""

SETTLED = 60.0
"""Seconds a child has to live for its failure to count as the first again."""

REFUSED = 2
"""The exit code of a process that would refuse to start however often it was started."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Start another child after so many seconds; ``failures`` is how many failed in a row."""

    after: float
    failures: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End all children, and then the supervisor with this code."""

    code: int


def after_end(code: int, lived: float, failures: int) -> Replace | GiveUp:
    """Decide what follows the end of a child that nobody told to stop.

    Args:
        code: its exit code, or minus the signal that killed it.
        lived: seconds since it was started.
        failures: how many children of its place failed in a row before it.

    """
    if code == REFUSED:
        return GiveUp(REFUSED)
    if code == 0:
        return Replace(0.0, 0)
    in_a_row = 1 if lived >= SETTLED else failures + 1
    doublings = min(in_a_row - 1, 16)
    return Replace(min(FIRST_WAIT * 2**doublings, LONGEST_WAIT), in_a_row)
