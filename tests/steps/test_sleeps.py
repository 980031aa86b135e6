"""Sleeping: the run is a row and a time until the database's clock says so, and nothing else."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from tests.builders import Declarations, Ping, sql, wait_until
from tests.steps.runs import (
    ONCE,
    TWICE,
    Calls,
    FirstTime,
    finish,
    make_due,
    row,
    run_to_the_end,
    start,
    state,
    step_of,
    trace,
    wait_for_state,
    work,
    working,
)
from tests.steps.wire import exchanges
from ultimate_jobs import Run
from ultimate_jobs.core.durations import Duration
from ultimate_jobs.models import JobStep

pytestmark = pytest.mark.django_db(transaction=True)


def test_three_days_are_a_row_with_a_time(declare: Declarations) -> None:
    calls = Calls()

    def body(run: Run[Ping]) -> None:
        run.step("before", calls("before"))
        run.sleep("3d")
        run.step("after", calls("after"))

    queued = start(declare(body))
    work()

    asleep = row(queued)
    assert (asleep.state, asleep.attempt, asleep.last_error) == ("suspended", 0, None)
    assert (asleep.claimed_by, asleep.visible_at) == (None, None)
    ((until_row, until_step, length),) = sql(
        "SELECT j.run_at, s.wake_at, s.wake_at - s.started_at FROM x_jobs AS j"
        " JOIN x_job_steps AS s USING (run_id) WHERE s.status = 'sleeping'"
    )
    assert until_row == until_step
    assert length == timedelta(days=3)

    make_due()
    work()
    assert calls == ["before", "after"]
    assert trace(queued) == [
        ("before", "completed"),
        ("sleep:3d", "completed"),
        ("after", "completed"),
    ]
    assert (state(queued), row(queued).attempt) == ("done", 1)


def test_nothing_is_held_meanwhile(declare: Declarations) -> None:
    bodies: list[threading.Thread] = []

    def body(run: Run[Ping]) -> None:
        bodies.append(threading.current_thread())
        run.sleep("3d")

    queued = [start(declare(body)) for _ in range(8)]
    quick = start(declare())
    with working(concurrency=2):
        for one in queued:
            wait_for_state(one, "suspended")
        wait_for_state(quick, "done")
        assert len({thread.ident for thread in bodies}) <= 2
        wait_until(lambda: in_transactions() == 0)


def in_transactions() -> int:
    ((count,),) = sql(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND state LIKE 'idle in transaction%'"
    )
    return int(count)


def test_it_is_not_over_before_its_time_and_the_run_goes_back_to_sleep(
    declare: Declarations,
) -> None:
    calls = Calls()

    def body(run: Run[Ping]) -> None:
        run.sleep("3d")
        calls("after")()

    queued = start(declare(body))
    work()
    sql("UPDATE x_jobs SET run_at = now()")
    work()

    assert state(queued) == "suspended"
    assert calls == []
    assert row(queued).run_at == step_of(queued, "sleep:3d").wake_at
    assert row(queued).attempt == 0


def test_it_wakes_by_itself(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        run.sleep("50ms")

    queued = start(declare(body))
    with working():
        wait_for_state(queued, "done")

    assert row(queued).attempt == 1


def test_repeats_of_one_length_are_numbered_and_slept_one_after_the_other(
    declare: Declarations,
) -> None:
    wakings = Calls()

    def body(run: Run[Ping]) -> None:
        for number in range(3):
            run.sleep("1d")
            run.step(f"woke {number}", wakings(number))
        run.sleep(timedelta(hours=1))
        run.sleep(3600)
        run.sleep("nap", "1d")

    queued = start(declare(body))
    finish(queued)

    assert wakings == [0, 1, 2]
    assert [name for name, _ in trace(queued) if not name.startswith("woke")] == [
        "sleep:1d",
        "sleep:1d#2",
        "sleep:1d#3",
        "sleep:3600s",
        "sleep:3600s#2",
        "nap",
    ]


def test_the_name_of_a_sleep_cannot_be_used_twice(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        run.sleep("nap", 0)
        run.sleep("nap", 0)

    ended = run_to_the_end(declare(body))

    assert "X_STEP_DUPLICATE" in str(ended.last_error)


def test_a_job_of_one_attempt_may_sleep_often(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        for _ in range(5):
            run.sleep("1d")

    ended = run_to_the_end(declare(body, retry=ONCE))

    assert (ended.state, ended.attempt) == ("done", 1)


class TestUntil:
    def test_an_instant_to_come_suspends_until_then(self, declare: Declarations) -> None:
        instant = datetime(2999, 1, 1, 12, tzinfo=UTC)

        queued = start(declare(lambda run: run.sleep_until("the year 2999", instant)))
        work()

        assert (state(queued), row(queued).run_at) == ("suspended", instant)
        assert step_of(queued, "the year 2999").wake_at == instant

    def test_an_instant_that_is_past_is_over_at_once(self, declare: Declarations) -> None:
        instant = datetime(2001, 1, 1, tzinfo=UTC)

        queued = start(declare(lambda run: run.sleep_until("long ago", instant)))
        work()

        assert state(queued) == "done"

    def test_an_instant_without_a_zone_is_refused(self, declare: Declarations) -> None:
        naive = datetime(2999, 1, 1)  # noqa: DTZ001 - what is refused

        ended = run_to_the_end(declare(lambda run: run.sleep_until("then", naive)))

        assert "X_JOB_DECLARATION_INVALID" in str(ended.last_error)

    def test_an_instant_that_moves_between_attempts_does_not_move_the_sleep(
        self, declare: Declarations
    ) -> None:
        instants = [datetime(2998, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)]

        queued = start(declare(lambda run: run.sleep_until("then", instants.pop(0))))
        work()
        sql("UPDATE x_jobs SET run_at = now()")
        work()

        assert row(queued).run_at.year == 2998


@pytest.mark.parametrize("length", [-1, "-1d", float("nan"), float("inf"), "soon", "11000d"])
def test_a_length_that_cannot_be_meant_is_refused(declare: Declarations, length: Duration) -> None:
    ended = run_to_the_end(declare(lambda run: run.sleep(length), retry=TWICE))

    assert (ended.state, ended.attempt) == ("dead", 1)
    assert "X_JOB_DECLARATION_INVALID" in str(ended.last_error)
    assert not JobStep.objects.all()


def test_a_body_that_catches_exceptions_is_suspended_all_the_same(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        try:
            run.sleep("3d")
        except Exception as error:
            raise AssertionError from error

    queued = start(declare(body))
    work()

    assert state(queued) == "suspended"


@pytest.mark.parametrize("goes_on", [False, True], ids=["and returns", "and goes on"])
def test_a_body_that_swallows_everything_is_suspended_all_the_same(
    declare: Declarations, *, goes_on: bool
) -> None:
    calls = Calls()

    def body(run: Run[Ping]) -> str:
        with suppress(BaseException):
            run.sleep("3d")
        if goes_on:
            run.step("after", calls("after"))
        return "swallowed"

    queued = start(declare(body))
    work()

    assert (state(queued), row(queued).result) == ("suspended", None)
    assert calls == []


def test_a_body_that_turns_the_suspension_into_an_error_is_suspended_all_the_same(
    declare: Declarations,
) -> None:
    def body(run: Run[Ping]) -> None:
        try:
            run.sleep("3d")
        finally:
            raise RuntimeError("while leaving")

    queued = start(declare(body, retry=ONCE))
    work()

    assert (state(queued), row(queued).last_error) == ("suspended", None)


def test_going_to_sleep_costs_no_statement_of_its_own(declare: Declarations) -> None:
    start(declare(lambda run: run.sleep("3d")))

    with exchanges() as seen:
        work()

    assert [name for name in seen if name not in ("CLAIM", "OUTBOX_RELAY")] == ["SETTLE"]


def test_a_failure_after_a_sleep_does_not_sleep_again(declare: Declarations) -> None:
    fails = FirstTime()

    def body(run: Run[Ping]) -> None:
        run.sleep("3d")
        fails()

    queued = start(declare(body, retry=TWICE))
    finish(queued)

    assert (state(queued), row(queued).attempt) == ("done", 2)
    assert len(trace(queued)) == 1
