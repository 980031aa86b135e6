"""The stock backends for tests, that accept tasks with the options of ``JobsBackend``.

They run a task at once, or not at all, as Django's do: attempts, backoff, timeouts, uniqueness and
concurrency do nothing there.
"""

from __future__ import annotations

from ultimate_jobs.tasks.framework import (
    DummyBackend as StockDummyBackend,
    ImmediateBackend as StockImmediateBackend,
)
from ultimate_jobs.tasks.options import JobsTask


class ImmediateBackend(StockImmediateBackend):
    """Runs a task inside its enqueue."""

    task_class = JobsTask


class DummyBackend(StockDummyBackend):
    """Keeps what was enqueued, and runs nothing."""

    task_class = JobsTask
