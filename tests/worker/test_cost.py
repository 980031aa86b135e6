"""What a worker asks of the database, counted in statements."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from pytest_django import Settings

from tests.builders import Declarations, Ping, some_jobs, states, wait_until
from tests.worker.running import (
    Statement,
    a_worker_process,
    milliseconds,
    on_duty,
    queries_logged,
    recorded,
    work,
)
from ultimate_jobs.models import Job as JobRow

pytestmark = pytest.mark.django_db(transaction=True)

CLAIM = "-- Take due rows for a worker"
SETTLE = "-- Write how attempts ended"
FAREWELL = "-- Remove the sign of life"


def kinds(statements: list[Statement]) -> list[str]:
    """Name what a worker asked between its start and its farewell."""
    asked = [text.partition("\n")[0].partition(",")[0] for _, text in statements]
    return [kind for kind in asked if not kind.startswith(FAREWELL)]


def test_an_empty_handed_pass_is_one_statement_whatever_the_queues(
    declare: Declarations,
) -> None:
    ping = declare()
    statements: list[Statement] = []
    worker = a_worker_process(ping, queues=["a", "b", "c", "d"])

    with recorded(statements):
        worker.run(until_idle=True)

    assert kinds(statements) == [CLAIM]


def test_an_idle_worker_only_claims_ever_less_often_up_to_the_ceiling(
    declare: Declarations,
) -> None:
    ping = declare()
    settings = {"poll_interval": milliseconds(20), "idle_poll_max": milliseconds(160)}
    with on_duty(ping, **settings) as duty:
        wait_until(lambda: len(duty.statements) >= 7)

    assert set(kinds(duty.statements)) == {CLAIM}
    times = [when for when, _ in duty.statements]
    waits = [after - before for before, after in pairwise(times)]
    for wait, least in zip(waits, (0.02, 0.04, 0.08, 0.16, 0.16, 0.16), strict=False):
        assert wait >= least - 0.002


def test_found_work_brings_the_pace_back(declare: Declarations) -> None:
    ping = declare()
    settings = {"poll_interval": milliseconds(10), "idle_poll_max": timedelta(seconds=1)}
    with on_duty(ping, **settings) as duty:
        wait_until(lambda: len(duty.statements) >= 5)
        ping.enqueue(Ping("a"))
        wait_until(lambda: states() == {"done": 1})
        found_at = next(when for when, text in duty.statements if SETTLE in text)
        wait_until(lambda: len([t for t, _ in duty.statements if t > found_at]) >= 3)

    after = [when for when, _ in duty.statements if when > found_at]
    assert after[1] - after[0] < 0.5, "it looks often again"


def test_a_batch_of_small_jobs_costs_a_fraction_of_a_statement_each(
    declare: Declarations,
) -> None:
    ping = declare()
    some_jobs(200, name=ping.name, input={"key": "a", "org": "acme", "load": None})
    statements: list[Statement] = []
    worker = a_worker_process(ping, concurrency=50)

    with recorded(statements):
        worker.run(until_idle=True)

    assert states() == {"done": 200}
    assert set(kinds(statements)) == {CLAIM, SETTLE}
    assert len(statements) <= 100


def test_a_worker_without_progress_or_lost_claims_writes_only_endings(
    declare: Declarations,
) -> None:
    ping = declare()
    ping.enqueue(Ping("a"))
    statements: list[Statement] = []
    worker = a_worker_process(ping)

    with recorded(statements):
        worker.run(until_idle=True)

    asked = kinds(statements)
    assert asked.count(SETTLE) == 1
    assert set(asked) == {CLAIM, SETTLE}


def test_bodies_run_no_statement_but_their_own(declare: Declarations) -> None:
    seen: list[Statement] = []

    def body(run: object) -> None:
        with recorded(seen):
            JobRow.objects.count()

    ping = declare(body)
    ping.enqueue(Ping("a"))

    work(ping)

    assert len(seen) == 1


def test_the_query_log_does_not_grow_with_debug_on(
    declare: Declarations, settings: Settings
) -> None:
    sizes: list[int] = []

    def body(run: object) -> None:
        JobRow.objects.count()
        sizes.append(queries_logged())

    settings.DEBUG = True
    ping = declare(body)
    ping.enqueue_many([Ping(f"k-{n}") for n in range(50)])

    work(ping, concurrency=1)

    assert len(sizes) == 50
    assert max(sizes) <= 2
