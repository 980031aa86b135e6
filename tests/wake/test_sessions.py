"""A listening session on a real server: proven, lost, dialled again; and whom it wakes."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    second_connection,
    sql,
    staged,
    states,
    wait_until,
)
from tests.wake.lines import (
    LOOPBACK,
    Told,
    a_listener,
    a_proxy,
    alias,
    closed_door,
    sessions,
)
from tests.worker.running import Events, Gate, a_worker_process, on_duty
from ultimate_jobs.conf import Settings
from ultimate_jobs.core.records import Topic
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.drivers.postgres.connection import dedicated
from ultimate_jobs.drivers.postgres.driver import PostgresDriver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.process.wake import Subscriber, listening
from ultimate_jobs.worker.messages import Woken

pytestmark = pytest.mark.django_db(transaction=True)

NEVER = timedelta(hours=1)
UNLESS_TOLD: dict[str, Any] = {
    "poll_interval": NEVER,
    "idle_poll_max": NEVER,
    "idle_poll_max_wake": NEVER,
}
"""A worker that looks once, and then only when it is told to."""


# Proof and loss


def test_a_session_is_proven_once_and_kept(events: Events) -> None:
    told = Told()
    with a_listener(told.of(Topic.JOBS), probe_every=0.05) as listener:
        events.wait_for("jobs.wake.live")
        (session,) = sessions()
        with a_listener(told.of(Topic.OUTBOX)):
            events.wait_for("jobs.wake.live", count=2)
        assert listener.live
        assert session in sessions()

    wait_until(lambda: not sessions())
    assert events.named("jobs.wake.lost") == []
    assert told.queues == []


def test_a_session_that_was_terminated_is_dialled_again_and_proven(events: Events) -> None:
    told = Told()
    with a_listener(told.of(Topic.JOBS)):
        events.wait_for("jobs.wake.live")
        (session,) = sessions()
        sql("SELECT pg_terminate_backend(%s)", [session])
        events.wait_for("jobs.wake.lost")
        events.wait_for("jobs.wake.live", count=2)
        (another,) = sessions()

    assert another != session
    assert told.live[:3] == [True, False, True]


def test_a_session_whose_network_swallows_everything_is_given_up(events: Events) -> None:
    told = Told()
    with (
        a_proxy() as proxy,
        alias("far_away", HOST=LOOPBACK, PORT=proxy.port) as far_away,
        a_listener(
            told.of(Topic.JOBS),
            driver=PostgresDriver("default", far_away),
            probe_every=0.2,
        ) as listener,
    ):
        events.wait_for("jobs.wake.live")
        proxy.silence()
        listener._within = 1.0
        assert events.wait_for("jobs.wake.lost")[0]["error"] == "TimeoutError"
        listener._within = PATIENCE
        events.wait_for("jobs.wake.live", count=2)

    assert told.live[:3] == [True, False, True]


def test_a_database_that_cannot_be_reached_is_tried_again_until_it_can(events: Events) -> None:
    with closed_door() as port, alias("gone", HOST=LOOPBACK, PORT=port) as gone:
        driver = PostgresDriver("default", gone)
        with a_listener(driver=driver) as listener:
            events.wait_for("jobs.wake.lost")
            assert not listener.live
            driver.wake._alias = "default"
            events.wait_for("jobs.wake.live")


def test_a_session_that_hears_of_other_tables_is_reported_once_with_the_remedy(
    events: Events,
) -> None:
    sql("CREATE SCHEMA elsewhere")
    sql("CREATE TABLE elsewhere.x_jobs (id int)")
    sql("CREATE TABLE elsewhere.x_outbox (id int)")
    try:
        with (
            alias("deaf", OPTIONS={"options": "-c search_path=elsewhere"}) as deaf,
            a_listener(
                driver=PostgresDriver("default", deaf), probe_every=0.2, answer_within=0.2
            ) as listener,
        ):
            (said,) = events.wait_for("jobs.wake.unverified")
            assert not listener.live
    finally:
        sql("DROP SCHEMA elsewhere CASCADE")

    assert "WAKE_DATABASE" in said["fix"]


def test_a_database_without_the_tables_refuses_and_jobs_run_all_the_same(
    events: Events, declare: Declarations
) -> None:
    ping = declare()
    with (
        alias("empty", OPTIONS={"options": "-c search_path=nowhere"}) as empty,
        a_listener(driver=PostgresDriver("default", empty)),
        on_duty(ping),
    ):
        events.wait_for("jobs.wake.unverified")
        ping.enqueue(Ping("a"))
        wait_until(lambda: states() == {"done": 1})


def test_the_session_is_in_no_pool_and_notices_a_dead_network() -> None:
    with alias("pooled", OPTIONS={"pool": True, "application_name": "shop " * 20}) as pooled:
        built = dedicated(pooled, suffix=" (wake)", options={"keepalives": 1}).settings_dict

    name = built["OPTIONS"].pop("application_name")
    assert built["OPTIONS"] == {"keepalives": 1}
    assert name.startswith("shop shop")
    assert name.endswith(" (wake)")
    assert len(name) <= 63


def test_it_listens_where_the_settings_say() -> None:
    with (
        alias("direct", HOST="db.internal") as direct,
        override_settings(ULTIMATE_JOBS={"WAKE_DATABASE": direct}),
    ):
        driver = get_driver()
    assert isinstance(driver, PostgresDriver)
    assert driver.wake._alias == "direct"
    assert driver.wake._database.alias == "default"


def test_a_wake_that_is_turned_off_starts_nothing() -> None:
    told = Told()
    with listening(get_driver(), Settings(wake=False), told.of(Topic.JOBS)):
        names = [thread.name for thread in threading.enumerate()]

    assert "ultimate_jobs-wake" not in names


# Whom it wakes


def test_a_worker_that_would_not_look_for_an_hour_runs_what_is_enqueued(
    events: Events, declare: Declarations
) -> None:
    ping = declare()
    with on_duty(ping, **UNLESS_TOLD) as duty:
        worker = duty.worker
        wait_until(lambda: duty.statements)
        with a_listener(Subscriber(Topic.JOBS, worker.wake, worker.trust_wake)):
            events.wait_for("jobs.wake.live")
            wait_until(lambda: len(duty.statements) >= 2, what="the look of one that is trusted")
            ping.enqueue(Ping("a"))
            wait_until(lambda: states() == {"done": 1})


def test_a_relay_that_would_not_look_for_an_hour_publishes_what_is_staged(
    events: Events, declare: Declarations
) -> None:
    ping = declare()
    relay = Relay(get_driver(), Settings(relay_interval=NEVER, idle_poll_max=NEVER))
    running = second_connection(relay.run)
    with a_listener(Subscriber(Topic.OUTBOX, relay.wake, lambda live: None)):
        events.wait_for("jobs.wake.live")
        with transaction.atomic():
            ping.enqueue(Ping("a"))
        wait_until(lambda: not staged())
        relay.stop()
        running.result(PATIENCE)

    assert states() == {"ready": 1}


def test_one_session_serves_both_loops_of_a_process(events: Events, declare: Declarations) -> None:
    ping = declare()
    relay = Relay(get_driver(), Settings(relay_interval=NEVER, idle_poll_max=NEVER))
    running = second_connection(relay.run)
    with on_duty(ping, **UNLESS_TOLD) as duty:
        worker = duty.worker
        with a_listener(
            Subscriber(Topic.JOBS, worker.wake, worker.trust_wake),
            Subscriber(Topic.OUTBOX, relay.wake, relay.trust_wake),
        ):
            events.wait_for("jobs.wake.live")
            wait_until(lambda: len(sessions()) == 1)
            with transaction.atomic():
                ping.enqueue(Ping("a"))
            wait_until(lambda: states() == {"done": 1})
            relay.stop()
            running.result(PATIENCE)


def test_a_full_worker_looks_when_there_is_room(
    events: Events, declare: Declarations, gate: Gate
) -> None:
    def body(run: Any) -> None:
        if run.input.key == "a":
            gate.hold()

    ping = declare(body)
    ping.enqueue(Ping("a"))
    with on_duty(ping, concurrency=1, **UNLESS_TOLD) as duty:
        gate.arrived()
        ping.enqueue(Ping("b"))
        duty.worker.wake("default")
        gate.open()
        wait_until(lambda: states() == {"done": 2})


def test_a_queue_that_is_not_served_wakes_nobody(declare: Declarations) -> None:
    worker = a_worker_process(declare(), queues=["mail"])
    worker._pace.next_pass = float("inf")

    worker._on(Woken("default"))
    assert not worker._is_time_to_claim()
    worker._on(Woken("mail"))
    assert worker._is_time_to_claim()
