"""Kill the worker at every statement that a run issues; the world is right every time.

A rehearsal lists the statements of each worker that a run takes. Then, for each of them, the whole
run is played again and that worker is killed right before the statement, and once more right after
the server has answered it. Whoever acts on the run acts between two workers; leases, retry waits
and sleeps end there as well.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, cast

import pytest

from tests.builders import Ping, settings_of, sql
from tests.crash.runner import Answer, Order, Phase
from tests.crash.scenarios import SCENARIOS, Scenario, World, declared_all
from tests.steps.runs import make_due, row, start
from ultimate_jobs import Enqueued, Job
from ultimate_jobs.core.states import TERMINAL
from ultimate_jobs.models import Job as JobRow

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.scenario,
    pytest.mark.timeout(1200),
]

ROUNDS = 12
"""Workers that a run may take; only a failure takes that many."""

Hand = Callable[[Order], Answer]


@pytest.fixture
def workers() -> Iterator[Hand]:
    """Answer a function that lets one worker process run."""
    with _runner() as process:
        yield lambda order: _told(process, order)


@contextmanager
def _runner() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.crash.runner"]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "testproject.settings",
        "DATABASE_NAME": settings_of()["NAME"],
        "LOG_LEVEL": "CRITICAL",
    }
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            yield process
        finally:
            cast("IO[str]", process.stdin).close()


def _told(process: subprocess.Popen[str], order: Order) -> Answer:
    orders, answers = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
    orders.write(json.dumps(asdict(order)) + "\n")
    orders.flush()
    return Answer(**json.loads(answers.readline()))


class Play:
    """One run from its start to its end, over as many workers as that takes."""

    def __init__(
        self, scenario: Scenario, handle: Job[Ping, Any], world: World, hand: Hand
    ) -> None:
        self._scenario = scenario
        self._handle = handle
        self._world = world
        self._hand = hand
        self.queued: Enqueued
        self.statements: list[list[str]] = []
        self.kills = 0

    def to_the_end(self, world: str, *, kill: int | None = None, at: Order | None = None) -> None:
        """Play the run; the worker with the number ``kill`` gets the order ``at``."""
        self.queued = start(self._handle, world)
        for number in range(ROUNDS):
            order = at if at is not None and number == kill else Order()
            answer = self._hand(order)
            assert answer.killed_by in (0, signal.SIGKILL), "the worker hung"
            self.kills += answer.killed_by == signal.SIGKILL
            self.statements.append(answer.statements)
            self._scenario.actor(self.queued, self._world)
            if self._is_over():
                return
            make_due()
        raise AssertionError(f"still {row(self.queued).state} after {ROUNDS} workers")

    def check(self) -> None:
        """Check what must be true at the end."""
        assert not JobRow.objects.filter(state="running")
        self._scenario.check(self.queued, self._world, self.kills)

    def _is_over(self) -> bool:
        return not JobRow.objects.exclude(state__in=TERMINAL) and not sql("SELECT FROM x_outbox")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_world_is_right_wherever_the_worker_dies(
    name: str, workers: Hand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with declared_all() as handles:

        def play(number: int, **killing: Any) -> Play:
            forget_everything()
            books = str(tmp_path / f"world-{number}")
            played = Play(SCENARIOS[name], handles[name], World(books), workers)
            played.to_the_end(books, **killing)
            played.check()
            return played

        rehearsed = play(0)
        assert rehearsed.kills == 0
        points = list(every_point(rehearsed.statements))
        wrong, kills = [], 0
        for number, (worker, statement, phase, called) in enumerate(points, start=1):
            try:
                kills += play(number, kill=worker, at=Order(statement, phase)).kills
            except AssertionError as error:
                wrong.append(f"killed {phase} {called} ({statement}) of worker {worker}: {error}")

    with capsys.disabled():
        print(f"\n{name}: {len(points)} points, {kills} kills", end=" ")  # noqa: T201
    assert not wrong, "\n".join(wrong)
    assert kills == len(points)


def every_point(workers: list[list[str]]) -> Iterator[tuple[int, int, Phase, str]]:
    """List what there is to die at: worker, statement, and whether before or after it."""
    phases: tuple[Phase, Phase] = ("before", "after")
    for worker, statements in enumerate(workers):
        for statement, called in enumerate(statements):
            for phase in phases:
                yield worker, statement, phase, called


def forget_everything() -> None:
    """Empty the tables: a run leaves rows, and the next one must not find them."""
    for table in (
        "x_jobs",
        "x_job_steps",
        "x_outbox",
        "x_job_events",
        "x_job_workers",
        "shop_order",
    ):
        sql(f"DELETE FROM {table}")  # noqa: S608 - names of our own
