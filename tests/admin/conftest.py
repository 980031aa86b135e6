"""Throwaway tasks, for the pages that show tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.definitions.task import Task, task


@pytest.fixture
def declare_task() -> Iterator[Callable[..., Task]]:
    """Declare tasks that enqueue nothing unless told; they are forgotten after the test."""
    with ExitStack() as stack:

        def declare(name: str, **options: Any) -> Task:
            words = {"cron": "0 0 1 1 *", "tz": "UTC", "enqueue": lambda occurrence: []}
            declared: Task = task(name=name, **{**words, **options})
            stack.callback(tasks.discard, declared)
            return declared

        yield declare
