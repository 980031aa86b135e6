"""Fixtures of this folder, which is skipped where there is no tasks framework at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from ultimate_jobs.errors import TasksFrameworkMissing

try:
    import_module("ultimate_jobs.tasks.framework")
except TasksFrameworkMissing as missing:
    ABSENT = missing.cause
else:
    ABSENT = ""

ANYWHERE = {"test_without_a_framework.py"}


class Absent(pytest.Module):
    """A module that needs the framework, where there is none."""

    def collect(self) -> Any:
        pytest.skip(ABSENT, allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> Absent | None:
    if not ABSENT or module_path.name in ANYWHERE:
        return None
    return Absent.from_parent(parent, path=module_path)


BACKEND = "ultimate_jobs.tasks.JobsBackend"


@contextmanager
def backends(**entries: dict[str, Any]) -> Iterator[None]:
    """Configure backends of ours inside the block, each with what its entry says more."""
    with override_settings(TASKS={n: {"BACKEND": BACKEND, **e} for n, e in entries.items()}):
        yield


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Forget what a test declared and noted."""
    if ABSENT:
        yield
        return
    functions = import_module("tests.tasks.functions")
    known = import_module("ultimate_jobs.tasks.known")
    before = known.all_known()
    for declared in functions.DECLARED:
        known.remember(declared)
    functions.calls.clear()
    functions.begun.clear()
    yield
    for declared in known.all_known():
        if declared not in before:
            known.forget(declared)
