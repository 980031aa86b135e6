"""Finds enqueues in a loop where one ``enqueue_many`` would do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType
from typing import TypeAlias

from ultimate_jobs.core.records import Batch

MANY = 5
"""Enqueues of one loop that are worth a warning."""

_PASSED_OVER = ("asgiref", "concurrent", "contextlib", "django", "threading", "ultimate_jobs")
_BEYOND = (
    "_pytest",
    "django.core.handlers",
    "django.test",
    "ultimate_jobs.testing",
    "ultimate_jobs.worker",
    "unittest",
)

Site: TypeAlias = tuple[str, int, Batch]
"""A line, and what its enqueues have in common."""


class EnqueueLoopWarning(UserWarning):
    """A loop enqueues one by one: each is a statement of its own, and ``enqueue_many`` is one."""


class Loops:
    """Notices calls that come from the same line of the same call of a function, again and again.

    Args:
        test_file: the file of the test, whose own loops are no concern of the project's.

    """

    def __init__(self, test_file: str | None) -> None:
        self._test_file = test_file
        self._last: dict[Site, dict[FrameType, tuple[int, int]]] = {}
        self._told: set[Site] = set()

    def note(self, batch: Batch) -> None:
        """Take note of an enqueue, and warn when it is one of many."""
        frames = list(self._frames()) if len(batch.jobs) == 1 else []
        if not frames:
            return
        site = frames[0].f_code.co_filename, frames[0].f_lineno, replace(batch, jobs=())
        before = self._last.get(site, {})
        counts = {frame: (frame.f_lineno, _count(frame, before)) for frame in frames}
        self._last[site] = counts
        for frame, (line, count) in counts.items():
            if count >= MANY:
                self._warn(site, f"{frame.f_code.co_filename}:{line}")
                return

    def forget(self) -> None:
        """Let go of the calls that were seen, and of what they refer to."""
        self._last.clear()

    def _frames(self) -> Iterator[FrameType]:
        """Answer the frames of the project that led here, up to a body, a request or the test."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the stack, without its sources
        entered = False
        while frame is not None and frame.f_code.co_filename != self._test_file:
            module = str(frame.f_globals.get("__name__", ""))
            if entered and module.startswith(_BEYOND):
                return
            if module.partition(".")[0] not in _PASSED_OVER:
                entered = True
                yield frame
            frame = frame.f_back

    def _warn(self, site: Site, loop: str) -> None:
        if site in self._told:
            return
        self._told.add(site)
        file, line, batch = site
        warnings.warn_explicit(
            f"'{batch.name}' is enqueued one by one in the loop at {loop}: "
            "enqueue_many() writes up to 1,000 with one statement.",
            EnqueueLoopWarning,
            file,
            line,
        )


def _count(frame: FrameType, before: dict[FrameType, tuple[int, int]]) -> int:
    line, count = before.get(frame, (frame.f_lineno, 0))
    return count + 1 if line == frame.f_lineno else 1
