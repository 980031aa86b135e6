"""Commands as processes: one listening session each, lost and found again while they work."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

import pytest

from testproject.shop.orders import place
from tests.builders import PATIENCE, sql, wait_until
from tests.commands.project import Project, altered
from tests.wake.lines import sessions
from ultimate_jobs.models import Job as JobRow

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.django_db(transaction=True),
]


@contextmanager
def started(project: Project, *words: str) -> Iterator[subprocess.Popen[str]]:
    with project.start(*words) as process:
        try:
            yield process
        finally:
            process.kill()


def says(process: subprocess.Popen[str], event: str) -> None:
    """Wait until a process has logged an event."""
    assert process.stderr is not None
    assert any(event in line for line in process.stderr), f"it ended without saying {event}"


@pytest.mark.parametrize(
    "words", [["jobs_worker", "--with", "relay"], ["jobs_relay"]], ids=" ".join
)
def test_a_process_has_one_session_and_dials_it_again_when_it_is_lost(words: list[str]) -> None:
    with started(Project(), *words) as process:
        says(process, "jobs.wake.live")
        (session,) = sessions()
        sql("SELECT pg_terminate_backend(%s)", [session])
        says(process, "jobs.wake.lost")
        says(process, "jobs.wake.live")
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    wait_until(lambda: not sessions())


def test_jobs_run_where_nobody_may_listen(tmp_path_factory: pytest.TempPathFactory) -> None:
    project = altered(
        tmp_path_factory.mktemp("deaf"),
        "DATABASES['nowhere'] = DATABASES['default'] | {'HOST': '127.0.0.1', 'PORT': 1}\n"
        "ULTIMATE_JOBS['WAKE_DATABASE'] = 'nowhere'",
    )
    with started(project, "jobs_worker", "--with", "relay") as process:
        says(process, "jobs.wake.lost")
        _, queued = place("o-1", Decimal(7))
        wait_until(lambda: JobRow.objects.filter(id=queued.id, claim__gt=0).exists())


def test_a_wake_that_is_turned_off_dials_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    project = altered(tmp_path_factory.mktemp("off"), "ULTIMATE_JOBS['WAKE'] = False")
    with started(project, "jobs_worker", "--with", "relay") as process:
        _, queued = place("o-1", Decimal(7))
        wait_until(lambda: JobRow.objects.filter(id=queued.id, claim__gt=0).exists())
        assert sessions() == []
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert "jobs.wake" not in process.stderr.read()
