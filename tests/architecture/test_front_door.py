"""The front door: what it lists is what there is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import ultimate_jobs

ROOT = Path(__file__).parent.parent.parent


def test_the_front_door_lists_everything_that_can_be_imported_from_it_once() -> None:
    public = {
        name
        for name, value in vars(ultimate_jobs).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }

    assert sorted(ultimate_jobs.__all__) == sorted(public)


def test_everything_at_the_front_door_is_explained() -> None:
    for name in ultimate_jobs.__all__:
        thing = getattr(ultimate_jobs, name)
        if callable(thing):
            assert (thing.__doc__ or "").strip(), name


START = """
import threading
import django
from django.db import connections

django.setup()
import ultimate_jobs
import ultimate_jobs.worker.loop
import ultimate_jobs.enqueue.relay

assert threading.active_count() == 1, threading.enumerate()
assert [c.connection for c in connections.all()] == [None]
"""


def test_starting_a_project_opens_no_connection_and_starts_no_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", START],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "testproject.settings",
            "DATABASE_URL": "postgresql://nobody@nowhere.invalid/nothing",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
