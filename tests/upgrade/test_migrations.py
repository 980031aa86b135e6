"""Each migration goes back and forward over tables that hold rows, and leaves the jobs as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction

from tests.builders import Ping, a_job, declared, reloaded, sql, work_off
from ultimate_jobs import RateLimit, Run, publish_event
from ultimate_jobs.core.states import JobState
from ultimate_jobs.operate.pauses import pause_queue

FOLDER = Path(__file__).resolve().parent.parent.parent / "ultimate_jobs" / "migrations"
NAMES = sorted(path.stem for path in FOLDER.glob("0*.py"))
LIMIT = RateLimit("migrated", limit=100, window="1h", scope="shared")


def migrate(name: str) -> None:
    call_command("migrate", "ultimate_jobs", name, verbosity=0)


@pytest.fixture
def migrated_afterwards(transactional_db: None) -> Iterator[None]:
    yield
    migrate(NAMES[-1])


def leave_traces(run: Run[Ping]) -> None:
    LIMIT.take()
    run.step("first", lambda: 1)
    publish_event("migrated", {"key": run.input.key})
    run.sleep("1h")


def jobs() -> list[tuple[Any, ...]]:
    return sql("SELECT id, name, state, attempt, claim, input::text FROM x_jobs ORDER BY id")


@pytest.mark.slow
def test_every_migration_goes_back_and_forward_over_filled_tables(
    migrated_afterwards: None,
) -> None:
    with declared(leave_traces, concurrency=1) as ping:
        ping.enqueue(Ping("asleep"))
        work_off()
        with transaction.atomic():
            ping.enqueue(Ping("staged"))
    a_job(JobState.DEAD, last_error="boom")
    pause_queue("elsewhere")
    before = jobs()

    for name in [*reversed(NAMES[:-1]), *NAMES[1:]]:
        migrate(name)
        assert jobs() == before, name

    with declared() as ping:
        row = reloaded(a_job(name=ping.name))
        work_off()
    assert reloaded(row).state == JobState.DONE
