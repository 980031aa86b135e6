"""The database goes away and comes back: the worker does too, and nothing is lost between."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db.models.functions import Now
from psycopg.sql import SQL, Identifier

from tests.builders import Declarations, Ping, settings_of, sql, states, wait_until
from tests.steps.wire import Say, hooked
from tests.worker.running import Events, Gate, at_least, on_duty
from ultimate_jobs import Retry, Run
from ultimate_jobs.models import Job as JobRow

pytestmark = pytest.mark.django_db(transaction=True)


def cut_connections() -> None:
    """End every connection to the database but the test's own."""
    sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


@contextmanager
def outage() -> Iterator[None]:
    """Let the database refuse every connection inside the block, and end those there are."""
    ours = settings_of()
    server = {"host": ours["HOST"], "port": ours["PORT"], "user": ours["USER"]}
    given = {key: value for key, value in server.items() if value}
    name = Identifier(ours["NAME"])
    with psycopg.connect(
        dbname="postgres", password=ours["PASSWORD"], autocommit=True, **given
    ) as outside:
        outside.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        cut_connections()
        try:
            yield
        finally:
            outside.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))


def test_an_ending_is_written_although_every_connection_was_cut(
    declare: Declarations, gate: Gate
) -> None:
    def body(run: Run[Ping]) -> str:
        gate.hold()
        return "kept"

    ping = declare(body, retry=Retry(attempts=1))
    ping.enqueue_many([Ping("a"), Ping("b")])
    with on_duty(ping):
        gate.arrived(2)
        cut_connections()
        gate.open()
        wait_until(lambda: states() == {"done": 2})

    assert set(JobRow.objects.values_list("attempt", "result")) == {(1, "kept")}


def test_an_idle_worker_comes_back(declare: Declarations) -> None:
    ping = declare()
    with on_duty(ping) as duty:
        wait_until(lambda: duty.statements)
        for key in ("a", "b"):
            cut_connections()
            ping.enqueue(Ping(key))
            wait_until(lambda: set(states()) == {"done"})

    assert states() == {"done": 2}


def test_endings_of_an_outage_are_written_when_it_is_over(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold(), retry=Retry(attempts=1))
    ping.enqueue_many([Ping("a"), Ping("b")])
    with on_duty(ping):
        gate.arrived(2)
        with outage():
            gate.open()
            events.wait_for("jobs.worker.settle-failed", 2)
        wait_until(lambda: states() == {"done": 2})

    waits = [said["next_try_seconds"] for said in events.named("jobs.worker.settle-failed")]
    assert waits[:2] == [0.5, 1.0], "an outage is no flood of lines"
    assert set(JobRow.objects.values_list("attempt", flat=True)) == {1}


def test_a_stop_during_an_outage_ends_at_the_drain_deadline(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold(), retry=Retry(attempts=2))
    ping.enqueue(Ping("a"))
    with on_duty(ping, drain_timeout=timedelta(seconds=1)) as duty:
        gate.arrived()
        with outage():
            gate.open()
            events.wait_for("jobs.worker.settle-failed")
            duty.worker.interrupt("SIGTERM")
            assert duty.ended().abandoned == 1

    assert states() == {"running": 1}


def test_a_claim_whose_answer_was_lost_is_delivered_again_while_its_worker_lives_on(
    declare: Declarations, gate: Gate
) -> None:
    losing = threading.Event()

    def lose_the_answer(name: str, say: Say) -> Any:
        answer = say()
        if name == "CLAIM" and losing.is_set():
            raise psycopg.OperationalError("the connection is lost")
        return answer

    ping = declare(lambda run: gate.hold() if run.input.key == "busy" else None)
    ping.enqueue(Ping("busy"))
    with (
        hooked(lose_the_answer),
        on_duty(ping, heartbeat_interval=timedelta(milliseconds=50)),
    ):
        gate.arrived()
        losing.set()
        ping.enqueue(Ping("lost"))
        lost = JobRow.objects.filter(idempotency_key="lost")
        wait_until(lambda: lost.get().state == "running", what="a claim to be lost")
        losing.clear()
        lost.update(visible_at=Now())
        wait_until(lambda: lost.get().state == "done")
        gate.open()

    attempts = JobRow.objects.values_list("idempotency_key", "attempt")
    assert dict(attempts) == {"busy": 1, "lost": 2}


def test_a_heartbeat_that_fails_once_is_survived(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold())
    ping.enqueue(Ping("a"))
    with on_duty(ping, heartbeat_interval=timedelta(milliseconds=100)):
        gate.arrived()
        with outage():
            events.wait_for("jobs.heartbeat.failed")
        gate.open()
        wait_until(lambda: states() == {"done": 1})

    assert events.named("jobs.lease.lost") == []
    assert JobRow.objects.get().attempt == 1


def test_a_stream_of_jobs_survives_cut_after_cut(declare: Declarations) -> None:
    runs: list[str] = []
    ping = declare(lambda run: runs.append(run.input.key), retry=Retry(attempts=50))
    ping.enqueue_many([Ping(f"k-{n:03}") for n in range(120)])
    with on_duty(ping, concurrency=3, visibility_timeout=timedelta(seconds=2)):
        for done in (10, 40, 70):
            wait_until(at_least(done, runs))
            cut_connections()
        wait_until(lambda: states() == {"done": 120})

    assert set(runs) == {f"k-{n:03}" for n in range(120)}
    attempts = dict(JobRow.objects.values_list("idempotency_key", "attempt"))
    assert Tally(runs) <= Tally(attempts), "every start was counted"


def test_a_body_whose_own_connection_breaks_fails_like_any_other(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> int:
        if run.attempt == 1:
            sql("SELECT pg_terminate_backend(pg_backend_pid())")
        return JobRow.objects.count()

    ping = declare(body, retry=Retry(attempts=2, delay="1ms"))
    ping.enqueue(Ping("a"))
    with on_duty(ping, concurrency=1):
        wait_until(lambda: states() == {"done": 1})

    row = JobRow.objects.get()
    assert (row.attempt, row.result) == (2, 1)
