"""The limits of one worker process: what does not fit comes again, uncounted."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from tests.builders import Declarations, Ping, states, wait_until
from tests.worker.running import Events, Gate, on_duty
from ultimate_jobs import Run
from ultimate_jobs.core.limiter import Limits
from ultimate_jobs.models import Job as JobRow

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def debug(caplog: pytest.LogCaptureFixture) -> None:
    """What is shed is said at the level of debugging."""
    caplog.set_level(logging.DEBUG, logger="ultimate_jobs")


def test_a_tenant_over_its_limit_waits_uncounted_while_others_run(
    declare: Declarations, events: Events, gate: Gate
) -> None:
    entered: list[str] = []

    def body(run: Run[Ping]) -> None:
        entered.append(run.input.org)
        gate.hold()

    ping = declare(body, tenant=lambda i: i.org)
    for number, org in enumerate(["a", "a", "a", "b"]):
        ping.enqueue(Ping(str(number), org), tenant=org)
    handed_back = JobRow.objects.filter(state="ready", attempt=0, last_error=None)
    seldom = {"poll_interval": timedelta(seconds=0.2), "idle_poll_max": timedelta(seconds=0.2)}
    with on_duty(ping, concurrency=4, limits=Limits(per_tenant=1), **seldom):
        gate.arrived(2)
        shed = events.wait_for("jobs.worker.shed")
        wait_until(lambda: handed_back.count() == 2)
        assert sorted(entered) == ["a", "b"]
        gate.open()
        wait_until(lambda: states() == {"done": 4})

    assert {one["reason"] for one in shed} == {"per-tenant"}
    assert set(JobRow.objects.values_list("attempt", flat=True)) == {1}


def test_a_hard_stop_hands_everything_back(declare: Declarations, events: Events) -> None:
    ping = declare()
    ping.enqueue(Ping("a"))
    with on_duty(ping, limits=Limits(overall=0)):
        events.wait_for("jobs.worker.shed", count=3)

    (row,) = JobRow.objects.all()
    assert (row.state, row.attempt) == ("ready", 0)


def test_a_run_that_stands_by_for_a_slot_uses_up_no_start(
    declare: Declarations, gate: Gate
) -> None:
    ping = declare(lambda run: gate.hold(), tenant=lambda i: i.org, concurrency=1)
    other = declare(lambda run: gate.hold(), tenant=lambda i: i.org)
    for number in range(5):
        ping.enqueue(Ping(str(number), "a"), tenant="a")
    with on_duty(ping, other, concurrency=8, limits=Limits(rate_per_tenant=(2, timedelta(days=1)))):
        gate.arrived()
        wait_until(lambda: JobRow.objects.filter(blocked=True).count() == 4)
        other.enqueue(Ping("x", "a"), tenant="a")
        gate.arrived()
        gate.open()
