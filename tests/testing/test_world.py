"""What a test sees of jobs, and how it plays the rest of the world."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest
from django.db import transaction

from testproject.shop import partners
from tests.builders import Declarations, Ping
from tests.testing.things import ONE, Declined
from ultimate_jobs import AsyncRun, Run, publish_event
from ultimate_jobs.testing import Call, JobsKit

pytestmark = pytest.mark.django_db


# Events


def waiting(run: Run[Ping]) -> object:
    return run.wait_for_event(
        "shipped", "order.shipped", schema=dict, match=run.input.key, timeout="7d"
    )


def test_an_event_ends_a_wait(jobs: JobsKit, declare: Declarations) -> None:
    trace = jobs.run_jobs(declare(waiting), Ping("a"))

    assert jobs.publish("order.shipped", {"parcel": "p-2"}, key="b") == 0
    assert jobs.publish("order.shipped", {"parcel": "p-1"}, key="a") == 1
    jobs.run_jobs()

    assert (trace.state, trace.result) == ("done", {"parcel": "p-1"})


def test_an_event_of_before_the_wait_does_not_end_it(jobs: JobsKit, declare: Declarations) -> None:
    jobs.publish("order.shipped", {"parcel": "old"}, key="a")

    trace = jobs.run_jobs(declare(waiting), Ping("a"))
    assert trace.state == "suspended"
    jobs.clock.advance("7d")
    jobs.run_jobs()

    assert (trace.state, trace.result) == ("done", None)


def test_an_event_between_a_step_and_a_wait_ends_it(jobs: JobsKit, declare: Declarations) -> None:
    def body(run: Run[Ping]) -> object:
        run.step("ship", lambda: publish_event("order.shipped", {"n": 1}, correlation_key="a"))
        return waiting(run)

    trace = jobs.run_jobs(declare(body), Ping("a"))

    assert (trace.state, trace.result) == ("done", {"n": 1})


def test_an_event_stub_answers_every_wait(jobs: JobsKit, declare: Declarations) -> None:
    shipped = jobs.stub_event("order.shipped", lambda key: None if key == "b" else {"of": key})
    job = declare(waiting)
    job.enqueue_many([Ping("a"), Ping("b")])

    traces = jobs.run_jobs()

    assert [trace.result for trace in traces] == [{"of": "a"}, None]
    assert shipped.answered == [("a", {"of": "a"})]
    assert jobs.depth() == 1


# What was enqueued


def test_what_was_enqueued_is_told_with_its_options(jobs: JobsKit, declare: Declarations) -> None:
    job, other = declare(), declare()
    with transaction.atomic():
        job.enqueue(Ping("a"), delay="1h", priority=3, queue="mail", tenant="acme")
    other.enqueue(Ping("b"))

    (found,) = jobs.enqueued(job)

    assert (found.input, found.name, found.state) == (Ping("a"), job.name, "staged")
    assert (found.queue, found.priority, found.tenant) == ("mail", 3, "acme")
    assert found.run_at == jobs.clock.now() + timedelta(hours=1)
    assert found.idempotency_key == "a"
    assert [(one.input, one.state) for one in jobs.enqueued()] == [
        (Ping("a"), "staged"),
        (Ping("b"), "ready"),
    ]
    jobs.run_jobs()
    assert [one.state for one in jobs.enqueued()] == ["delayed"]
    assert (jobs.due(), jobs.in_flight(), jobs.depth()) == (0, 0, 1)


# Stubs


def test_a_stub_answers_one_after_the_other_and_notes_its_calls(
    jobs: JobsKit, declare: Declarations
) -> None:
    charge = jobs.stub(
        "testproject.shop.partners.charge", "ch-2", answers=[Declined("no"), TimeoutError]
    )
    job = declare(lambda run: partners.charge(run.input.key, ONE, "card", key="k"))

    trace = jobs.run_jobs(job, Ping("a"), failures="keep")
    jobs.run_to_end(failures="keep")

    assert (trace.state, trace.result, trace.attempt) == ("done", "ch-2", 3)
    assert charge.calls == [Call(("a", ONE, "card"), {"key": "k"})] * 3
    assert "called 3 times" in repr(charge)


async def fetch(what: str) -> str:
    raise AssertionError("the world outside was asked")


def test_a_stub_of_a_coroutine_function_is_awaited(jobs: JobsKit, declare: Declarations) -> None:
    asked = jobs.stub(f"{__name__}.fetch", lambda what: f"{what}!")

    async def body(run: AsyncRun[Ping]) -> str:
        return await fetch(run.input.key)

    trace = jobs.run_jobs(declare(cast("Any", body)), Ping("a"))

    assert (trace.result, asked.calls) == ("a!", [Call(("a",))])
