"""One clock for Python and PostgreSQL, which moves when it is told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from pytest_django import Settings

from testproject.shop import partners
from tests.builders import Declarations, Ping
from tests.testing.things import ONE, Declined, order, references
from ultimate_jobs import RateLimit, Retry, Run, Task, task
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import InvariantError, JobTimeout
from ultimate_jobs.testing import JobsKit, clock, jobs_kit

pytestmark = pytest.mark.django_db


# The clock


def test_the_clock_stands_still_until_it_is_moved(jobs: JobsKit) -> None:
    before = timezone.now()

    assert timezone.now() == before == jobs.clock.now()
    assert jobs.clock.advance("90s") == timezone.now() == before + timedelta(seconds=90)


def test_the_clock_moves_to_an_instant(jobs: JobsKit, declare: Declarations) -> None:
    new_year = datetime(2031, 1, 1, tzinfo=UTC)
    job = declare(lambda run: str(timezone.localtime().year))
    job.enqueue(Ping("a"), run_at=new_year)

    jobs.clock.move_to(new_year - timedelta(seconds=1))
    assert jobs.run_jobs() == []
    jobs.clock.move_to(new_year)

    (trace,) = jobs.run_jobs()
    assert trace.result == "2031"


def test_a_project_without_time_zones_has_the_same_clock(
    jobs: JobsKit, declare: Declarations, settings: Settings
) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "America/New_York"
    before = jobs.clock.now()
    job = declare()
    job.enqueue(Ping("a"), delay="1h")

    (queued,) = jobs.enqueued(job)
    (trace,) = jobs.run_to_end()

    assert queued.run_at == jobs.clock.now() == before + timedelta(hours=1)
    assert trace.state == "done"


@pytest.mark.parametrize("length", ["soon", -1, None])
def test_what_is_no_length_does_not_move_the_clock(jobs: JobsKit, length: Any) -> None:
    before = jobs.clock.now()

    with pytest.raises(InvariantError):
        jobs.clock.advance(length)
    with pytest.raises(InvariantError, match="time zone"):
        jobs.clock.move_to(datetime(2031, 1, 1))  # noqa: DTZ001 - that is what is refused

    assert jobs.clock.now() == before


def test_python_has_its_own_time_back_after_the_test() -> None:
    with jobs_kit() as kit:
        kit.clock.move_to(datetime(2031, 1, 1, tzinfo=UTC))
        assert timezone.now().year == 2031

    assert timezone.now() < kit.clock.now()
    assert get_driver().name == "postgres"
    assert not isinstance(get_driver(), type(kit._driver))


def test_the_clock_follows_the_one_that_another_library_moves(
    jobs: JobsKit, declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Moved(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Self:
            return cls(2031, 1, 1, tzinfo=tz)

    job = declare()
    job.enqueue(Ping("a"), run_at=datetime(2030, 12, 31, tzinfo=UTC))
    assert jobs.run_jobs() == []
    monkeypatch.setattr(clock, "datetime", Moved)

    jobs.clock.follow_python()

    assert len(jobs.run_jobs()) == 1
    assert timezone.now() == datetime(2031, 1, 1, tzinfo=UTC)
    with pytest.raises(InvariantError, match="follows Python's"):
        jobs.clock.advance("1d")


def test_steps_sleep_and_are_not_repeated(jobs: JobsKit, declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        run.step("charge", lambda: 1)
        run.sleep("3d")
        run.atomic("nudge", lambda: order().reference)

    trace = jobs.run_jobs(declare(body), Ping("a"))
    assert (trace.state, list(trace.steps)) == ("suspended", ["charge", "sleep:3d"])
    jobs.clock.advance("2d")
    assert (jobs.run_jobs(), jobs.due(), jobs.depth()) == ([], 0, 1)
    jobs.clock.advance("1d")
    assert jobs.due() == 1
    (again,) = jobs.run_jobs()

    assert (again.id, trace.state, jobs.depth()) == (trace.id, "done", 0)
    assert trace.steps["charge"].executions == trace.steps["nudge"].executions == 1
    assert trace.steps["nudge"].output == "a-1"
    with pytest.raises(KeyError, match="Its steps: 'charge'"):
        trace.steps["nugde"]


@pytest.mark.parametrize("scope", ["shared", "process"])
def test_a_rate_limit_refills_as_the_clock_moves(
    jobs: JobsKit, declare: Declarations, scope: Any
) -> None:
    limit = RateLimit("testing.calls", limit=1, window="1m", scope=scope)
    job = declare(lambda run: limit.take())
    job.enqueue_many([Ping("a"), Ping("b")])

    jobs.run_jobs()
    assert jobs.depth() == 1
    jobs.clock.advance("2m")
    jobs.run_jobs()

    assert jobs.depth() == 0


def test_a_stub_that_takes_too_long_runs_a_body_out_of_time(
    jobs: JobsKit, declare: Declarations
) -> None:
    slow = jobs.stub("testproject.shop.partners.charge", takes="90s")

    def body(run: Run[Ping]) -> None:
        slow()
        order("too late")

    job = declare(body, timeout="1m", retry=Retry(attempts=1))
    with pytest.raises(JobTimeout):
        jobs.run_jobs(job, Ping("a"))
    trace = jobs.run_jobs(job, Ping("b"), failures="keep")

    assert trace.state == "dead"
    assert references() == []


def test_a_stub_that_takes_too_long_runs_a_step_out_of_time(
    jobs: JobsKit, declare: Declarations
) -> None:
    slow = jobs.stub("testproject.shop.partners.charge", answers=["ch-1"], takes="90s")
    job = declare(lambda run: run.step("charge", slow, timeout="1m"))

    with pytest.raises(JobTimeout, match="step 'charge'"):
        jobs.run_jobs(job, Ping("a"))


def test_a_body_may_take_longer_than_a_lease(jobs: JobsKit, declare: Declarations) -> None:
    jobs.stub("testproject.shop.partners.charge", "ch-1", takes="1h")

    def body(run: Run[Ping]) -> None:
        run.step("charge", lambda: partners.charge("a", ONE, "card", key="k"))
        assert jobs.in_flight() == 1

    trace = jobs.run_jobs(declare(body, concurrency=1), Ping("a"))

    assert (trace.state, trace.steps["charge"].output) == ("done", "ch-1")


def test_a_job_runs_to_its_end_with_one_call(jobs: JobsKit, declare: Declarations) -> None:
    def body(run: Run[Ping]) -> object:
        run.sleep("3d")
        return run.wait_for_event("shipped", "order.shipped", schema=dict, timeout="7d")

    before = jobs.clock.now()
    job = declare(body)
    job.enqueue(Ping("a"), delay="1d")

    (trace,) = jobs.run_to_end()

    assert (trace.state, trace.result) == ("done", None)
    assert jobs.clock.now() - before == timedelta(days=11)


# Tasks


def entries(at: datetime) -> list[Any]:
    raise AssertionError("a test says what is due")


def due(at: datetime) -> list[Any]:
    return entries(at)


@pytest.fixture
def hourly(jobs: JobsKit) -> Iterator[Task]:
    """Answer a task that is scheduled, half an hour before its next occurrence."""
    declared = task(name="tests.hourly", cron="0 * * * *", tz="UTC", enqueue=due)
    jobs.clock.move_to(datetime(2031, 1, 1, 7, 30, tzinfo=UTC))
    jobs.schedule(declared)
    yield declared
    tasks.discard(declared)


@pytest.mark.usefixtures("hourly")
def test_a_task_fires_as_the_clock_passes_its_occurrences(
    jobs: JobsKit, declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = declare(lambda run: run.input.key)
    monkeypatch.setitem(globals(), "entries", lambda at: [(job, Ping(f"{at:%H}"))])

    jobs.clock.advance("29m")
    assert jobs.run_jobs() == []
    jobs.clock.advance("1m")
    assert [trace.result for trace in jobs.run_jobs()] == ["08"]
    jobs.clock.advance("3h")
    assert [trace.result for trace in jobs.run_jobs()] == ["09", "10", "11"]


@pytest.mark.usefixtures("hourly")
def test_a_task_fires_while_a_body_lets_time_pass(
    jobs: JobsKit, declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired = declare(lambda run: order("fired").reference)
    monkeypatch.setitem(globals(), "entries", lambda at: [(fired, Ping("a"))])

    def body(run: Run[Ping]) -> None:
        with transaction.atomic():
            order("before")
            jobs.clock.advance("1h")
            order("after")
        with pytest.raises(IntegrityError):
            order("after")

    trace = jobs.run_jobs(declare(body), Ping("a"))

    assert trace.state == "done"
    assert references() == ["after", "before", "fired"]


@pytest.mark.usefixtures("hourly")
def test_a_task_that_raises_tells_the_test(jobs: JobsKit, monkeypatch: pytest.MonkeyPatch) -> None:
    def declined(at: datetime) -> list[Any]:
        raise Declined

    monkeypatch.setitem(globals(), "entries", declined)

    with pytest.raises(Declined):
        jobs.clock.advance("1h")
