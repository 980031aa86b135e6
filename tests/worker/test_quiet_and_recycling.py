"""A worker that claims nothing more although nobody stopped it, or stops although nobody told it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.builders import PATIENCE, Declarations, Ping, states, wait_until
from tests.worker.running import Events, Gate, on_duty, quick, work
from ultimate_jobs import Job, Run
from ultimate_jobs.conf import Settings
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.process.pulse import Pulse
from ultimate_jobs.worker.loop import Worker
from ultimate_jobs.worker.stats import WorkerStats

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_quiet_worker_finishes_what_it_has_and_stays(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold())
    ping.enqueue(Ping("a"))
    with on_duty(ping, concurrency=4) as duty:
        gate.arrived()
        duty.worker.quiet()
        events.wait_for("jobs.worker.quiet")
        ping.enqueue(Ping("b"))
        gate.open()
        wait_until(lambda: duty.worker.stats.processed == 1)
        assert duty.worker.stats.state == "quiet"
        duty.worker.interrupt("SIGTERM")
        stats = duty.ended()

    assert (states(), stats.abandoned) == ({"done": 1, "ready": 1}, 0)


def test_a_worker_may_be_quiet_from_the_start(declare: Declarations, events: Events) -> None:
    ping = declare()
    ping.enqueue(Ping("a"))
    known = Registry()
    known.add(ping)
    worker = Worker(get_driver(), known, quick())
    worker.quiet()
    worker.interrupt("SIGTERM")
    worker.run()

    assert states() == {"ready": 1}
    assert events.named("jobs.worker.quiet")


def test_being_quiet_twice_or_while_draining_changes_nothing(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold())
    ping.enqueue(Ping("a"))
    with on_duty(ping) as duty:
        gate.arrived()
        duty.worker.quiet()
        duty.worker.quiet()
        duty.worker.stop()
        duty.worker.quiet()
        gate.open()
        duty.ended()

    assert len(events.named("jobs.worker.quiet")) == 1
    assert len(events.named("jobs.worker.draining")) == 1


def test_little_patience_is_the_shorter_of_two_deadlines(declare: Declarations, gate: Gate) -> None:
    ping = declare(lambda run: gate.hold())
    ping.enqueue(Ping("a"))
    with on_duty(ping, drain_timeout=timedelta(hours=1)) as duty:
        gate.arrived()
        duty.worker.interrupt("SIGTERM")
        duty.worker.interrupt("SIGQUIT", 0.05)
        assert duty.ended().abandoned == 1

    assert states() == {"running": 1}


def test_a_body_that_listens_gives_its_attempt_back_with_little_patience(
    declare: Declarations, gate: Gate
) -> None:
    def body(run: Run[Ping]) -> None:
        gate.hold()
        run.signal.wait(PATIENCE)
        run.signal.raise_if_aborted()

    ping = declare(body)
    ping.enqueue(Ping("a"))
    gate.open()
    with on_duty(ping) as duty:
        gate.arrived()
        duty.worker.interrupt("SIGQUIT", PATIENCE)
        assert duty.ended().abandoned == 0

    assert (JobRow.objects.get().state, JobRow.objects.get().attempt) == ("ready", 0)


def test_what_runs_is_named_and_logged(declare: Declarations, events: Events, gate: Gate) -> None:
    ping = declare(lambda run: gate.hold())
    queued = ping.enqueue(Ping("a"))
    with on_duty(ping) as duty:
        gate.arrived()
        (run,) = duty.worker.running()
        duty.worker.report()
        (line,) = events.wait_for("jobs.worker.holds")
        gate.open()
        wait_until(lambda: duty.worker.running() == [])

    assert (run["id"], run["name"], run["attempt"]) == (queued.id, ping.name, 1)
    assert (line["id"], line["worker"]) == (queued.id, duty.worker.id)
    assert events.named("jobs.worker.reported")[0]["running"] == 1


def recycled(settings: Settings, enough: int, *handles: Job[Any, Any]) -> Worker:
    def worked_enough(stats: WorkerStats) -> str | None:
        return "enough" if stats.processed >= enough else None

    known = Registry()
    for handle in handles:
        known.add(handle)
    return Worker(get_driver(), known, settings, concurrency=1, recycle=worked_enough)


def test_a_worker_that_has_worked_enough_stops_by_itself(
    declare: Declarations, events: Events
) -> None:
    ping = declare()
    ping.enqueue_many([Ping(f"k-{n}") for n in range(5)])

    worker = recycled(quick(), 2, ping)
    worker.run()

    assert (worker.stats.processed, worker.stats.abandoned) == (2, 0)
    assert states() == {"done": 2, "ready": 3}
    assert events.named("jobs.worker.recycling") == [{"worker": worker.id, "reason": "enough"}]


def test_what_runs_is_not_disturbed_when_a_worker_has_worked_enough(
    declare: Declarations, gate: Gate
) -> None:
    told: list[bool] = []

    def body(run: Run[Ping]) -> None:
        gate.hold()
        told.append(run.signal.aborted)

    slow, fast = declare(body), declare()
    slow.enqueue(Ping("a"), priority=1)
    fast.enqueue(Ping("b"))
    with on_duty(slow, fast) as duty:
        duty.worker._recycle = lambda stats: "enough" if stats.processed else None
        gate.arrived()
        wait_until(lambda: duty.worker.stats.state == "draining")
        gate.open()
        stats = duty.ended()

    assert (told, stats.abandoned, states()) == ([False], 0, {"done": 2})


def test_the_pulse_of_a_worker_says_that_the_database_answers(declare: Declarations) -> None:
    ping = declare()
    ping.enqueue(Ping("a"))
    known = Registry()
    known.add(ping)
    pulse = Pulse("worker")
    worker = Worker(get_driver(), known, quick(), pulse=pulse)
    assert pulse.read().state == "starting"

    worker.run(until_idle=True)

    vitals = pulse.read()
    assert (vitals.database, vitals.processed, vitals.in_flight) == (True, 1, 0)
    assert vitals.state == "stopped"


def test_nothing_due_and_nothing_to_say(declare: Declarations, events: Events) -> None:
    stats = work(declare())

    assert stats.processed == 0
    assert events.named("jobs.worker.recycling") == []
