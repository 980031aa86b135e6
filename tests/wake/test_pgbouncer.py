"""Behind PgBouncer in transaction mode everything works but the wake, and that is said once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from tests.builders import PATIENCE, Declarations, Ping, second_connection, sql, states, wait_until
from tests.wake.lines import LOOPBACK, Told, a_listener, alias, pgbouncer
from tests.worker.running import Events, milliseconds, on_duty
from ultimate_jobs import publish_event
from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.records import Topic
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.drivers.postgres.driver import PostgresDriver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.models import Job as JobRow, JobStep

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.scenario, pytest.mark.slow]

ROUNDS = 20


@pytest.fixture
def pooled() -> Iterator[str]:
    """Let the package work through the pool."""
    with (
        pgbouncer() as port,
        alias("pooled", HOST=LOOPBACK, PORT=port) as name,
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
        on_duty(ping, concurrency=6, visibility_timeout=milliseconds(3_000)),
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
    assert [name for name in events.names() if name.endswith(("-failed", ".lost"))] == []
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
