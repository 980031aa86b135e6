"""Behind PgBouncer in transaction mode everything works but the wake, and that is said once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now
from django.test import override_settings

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    at_once,
    second_connection,
    sql,
    states,
    wait_until,
)
from tests.wake.lines import Told, a_listener, alias, pgbouncer
from tests.worker.running import Events, milliseconds, on_duty
from ultimate_jobs import Run, publish_event
from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.records import Topic
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.definitions.task import task
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.drivers.postgres.driver import PostgresDriver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.models import Job as JobRow, JobStep, Lease, TaskState
from ultimate_jobs.scheduler.agenda import rule_of
from ultimate_jobs.scheduler.loop import Scheduler

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.scenario, pytest.mark.slow]

ROUNDS = 20


@pytest.fixture
def pooled() -> Iterator[str]:
    """Let the package work through the pool."""
    with (
        pgbouncer() as folder,
        alias("pooled", HOST=folder, PORT=6432) as name,
        override_settings(ULTIMATE_JOBS={"DATABASE": name}),
    ):
        yield name


class Dials(PostgresDriver):
    """Counts how often a session was dialled."""

    def __init__(self, *aliases: str) -> None:
        super().__init__(*aliases)
        self.count = 0
        dial = self.wake.listen

        def counted() -> Any:
            self.count += 1
            return dial()

        vars(self.wake).update(listen=counted)


def everything(run: Any) -> str:
    """Take a step, a transaction, and wait for an event."""
    stored = run.step("step", lambda: run.input.key)
    run.atomic("atomic", lambda: Database("pooled").rows("SELECT 1 AS one", {})[0][0])
    paid = run.wait_for_event("wait", "paid", schema=dict, match=run.input.key, timeout="1h")
    return f"{stored} {paid['n']}"


def left_open(name: str) -> int:
    ((count,),) = sql(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND state LIKE 'idle in transaction%%'"
    )
    return int(count)


@pytest.mark.timeout(120)
def test_everything_works_through_the_pool_but_the_wake(
    pooled: str, events: Events, declare: Declarations
) -> None:
    ping = declare(everything)
    driver = Dials(pooled)
    relay = Relay(get_driver(), get_settings())
    running = second_connection(relay.run)

    def enqueue_and_publish() -> None:
        ping.enqueue_many([Ping(f"direct-{n}") for n in range(ROUNDS)])
        for n in range(ROUNDS):
            with transaction.atomic(using=pooled):
                ping.enqueue(Ping(f"staged-{n}"))
        wait_until(lambda: states().get("suspended", 0) == 2 * ROUNDS, 3 * PATIENCE)
        for n in range(ROUNDS):
            publish_event("paid", {"n": n}, correlation_key=f"direct-{n}")
            publish_event("paid", {"n": n}, correlation_key=f"staged-{n}")

    with (
        a_listener(driver=driver, probe_every=0.1, answer_within=0.5) as listener,
        on_duty(ping, concurrency=6, heartbeat_interval=milliseconds(500)),
    ):
        second_connection(enqueue_and_publish).result(6 * PATIENCE)
        wait_until(lambda: states() == {"done": 2 * ROUNDS}, 3 * PATIENCE)
        wait_until(lambda: driver.count >= 3, what="more sessions that hear nothing")
        assert not listener.live
        relay.stop()
        running.result(PATIENCE)

    assert JobStep.objects.filter(status="completed").count() == 3 * 2 * ROUNDS
    assert set(JobRow.objects.values_list("attempt", flat=True)) <= {1, 2}
    assert len(events.named("jobs.wake.unverified")) == 1
    assert "jobs.wake.live" not in events.names()
    assert "prepared statement" not in events.lines()
    of_others = [name for name in events.names() if not name.startswith("jobs.wake.")]
    assert [name for name in of_others if name.endswith(("-failed", ".lost"))] == []
    wait_until(lambda: left_open(pooled) == 0)


def test_a_direct_way_for_the_session_alone_brings_the_wake(
    pooled: str, events: Events, declare: Declarations
) -> None:
    ping, told = declare(), Told()
    with (
        alias("direct") as direct,
        a_listener(told.of(Topic.JOBS), driver=PostgresDriver(pooled, direct)),
    ):
        events.wait_for("jobs.wake.live")
        ping.enqueue(Ping("a"))
        wait_until(lambda: told.queues == ["default"])
    assert told.live == [True]
    assert events.named("jobs.wake.unverified") == []


# What the wake has no part in


class Inside:
    """Counts the bodies that are inside at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._now -= 1


def prepared(name: str) -> list[str]:
    """Name what is prepared on the server connections of the pool: two that are held at once."""
    gate = threading.Barrier(2)

    def look() -> tuple[int, list[str]]:
        with transaction.atomic(using=name):
            ((pid, names),) = Database(name).rows(
                "SELECT pg_backend_pid(), array(SELECT name FROM pg_prepared_statements)", {}
            )
            gate.wait(PATIENCE)
            return pid, names

    (first, some), (second, others) = at_once(look, look)
    assert first != second
    return some + others


@pytest.mark.timeout(180)
def test_a_cap_holds_over_the_pool_and_nothing_stays_prepared(
    pooled: str, declare: Declarations, events: Events
) -> None:
    inside, pause = Inside(), threading.Event()

    def body(run: Run[Ping]) -> object:
        with inside:
            pause.wait(0.005)
            return run.step("step", lambda: Database(pooled).rows("SELECT 1 AS one", {})[0][0])

    capped = declare(body, concurrency=1)
    second_connection(
        lambda: capped.enqueue_many([Ping(str(number)) for number in range(ROUNDS)])
    ).result(PATIENCE)
    with on_duty(capped, concurrency=4), on_duty(capped, concurrency=4):
        wait_until(lambda: states() == {"done": ROUNDS}, 6 * PATIENCE)
        wait_until(lambda: left_open(pooled) == 0)

    assert inside.most == 1
    assert not Lease.objects.exists()
    assert prepared(pooled) == []
    assert set(JobRow.objects.values_list("attempt", flat=True)) == {1}
    assert JobStep.objects.filter(status="completed").count() == ROUNDS
    assert [name for name in events.names() if name.endswith(("-failed", ".lost"))] == []


MINUTES = 3


@pytest.mark.timeout(180)
def test_two_schedulers_over_the_pool_fire_each_occurrence_once(
    pooled: str, declare: Declarations, events: Events
) -> None:
    ping = declare()
    minutely = [
        task(
            name=f"tests.pooled_{number}",
            cron="* * * * *",
            tz="UTC",
            enqueue=lambda occurrence: [(ping, Ping(f"{occurrence:%H:%M}"))],
            catch_up="run-all",
        )
        for number in range(10)
    ]
    for one in minutely:
        TaskState.objects.create(
            name=one.name, rule=rule_of(one), watermark=Now() - timedelta(minutes=MINUTES)
        )
    schedulers = [Scheduler(get_driver(), minutely) for _ in range(2)]
    try:
        running = [second_connection(scheduler.run) for scheduler in schedulers]
        wait_until(lambda: JobRow.objects.count() >= MINUTES * len(minutely), 3 * PATIENCE)
        wait_until(lambda: left_open(pooled) == 0)
        leaders = events.named("jobs.scheduler.leading")
        for scheduler, run in zip(schedulers, running, strict=True):
            scheduler.stop()
            run.result(PATIENCE)
    finally:
        for one in minutely:
            tasks.discard(one)

    fired = list(JobRow.objects.values_list("idempotency_key", flat=True))
    assert len(leaders) == 1
    assert len(set(fired)) == len(fired)
    assert {key.partition(":")[0] for key in fired} == {one.name for one in minutely}
    assert prepared(pooled) == []
    assert [name for name in events.names() if name.endswith("-failed")] == []
