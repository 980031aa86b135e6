"""Events: stored with the transaction that publishes them, and found by the runs that wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction

from tests.builders import PATIENCE, Declarations, Ping, rolled_back, second_connection, sql
from tests.steps.runs import (
    ONCE,
    TWICE,
    Calls,
    FirstTime,
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
from ultimate_jobs import Enqueued, Job, JobsError, Retry, Run, publish_event
from ultimate_jobs.models import Event
from ultimate_jobs.operate.verbs import cancel_job

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Paid:
    amount: int


def waits(declare: Declarations, **options: Any) -> Job[Ping, object]:
    """Declare a job that answers what it waited for, or ``"nothing"``."""
    how = {"schema": Paid, **options}

    def body(run: Run[Ping]) -> Any:
        paid = run.wait_for_event("payment", "paid", **how)
        return "nothing" if paid is None else paid.amount

    return declare(body, retry=TWICE)


def waiting(handle: Job[Ping, object]) -> Enqueued:
    queued = start(handle)
    work()
    assert state(queued) == "suspended"
    return queued


def time_out(queued: Enqueued) -> None:
    sql("UPDATE x_job_steps SET wake_at = now() WHERE run_id = %s", [queued.run_id])
    sql("UPDATE x_jobs SET run_at = now() WHERE id = %s", [queued.id])


class TestWaiting:
    def test_nothing_is_held_and_no_attempt_is_used(self, declare: Declarations) -> None:
        queued = waiting(waits(declare))

        assert (row(queued).attempt, row(queued).claimed_by) == (0, None)
        assert trace(queued) == [("payment", "waiting")]

    def test_it_lasts_a_day_unless_told_otherwise_and_is_looked_at_every_quarter_hour(
        self, declare: Declarations
    ) -> None:
        queued = waiting(waits(declare))

        ((lasts, looked),) = sql(
            "SELECT extract(epoch FROM s.wake_at - s.started_at),"
            " extract(epoch FROM j.run_at - s.started_at)"
            " FROM x_job_steps AS s JOIN x_jobs AS j USING (run_id)"
        )
        assert lasts == 24 * 3600
        assert 15 * 60 <= looked < 30 * 60
        assert row(queued).state == "suspended"

    def test_a_look_in_between_finds_nothing_and_the_end_does_not_move(
        self, declare: Declarations
    ) -> None:
        queued = waiting(waits(declare))
        ends = step_of(queued, "payment").wake_at
        sql("UPDATE x_jobs SET run_at = now()")
        work()

        assert state(queued) == "suspended"
        assert step_of(queued, "payment").wake_at == ends

    def test_it_begins_in_the_statement_that_suspends_the_run(self, declare: Declarations) -> None:
        start(waits(declare))

        with exchanges() as seen:
            work()

        rest = [name for name in seen if name not in ("CLAIM", "OUTBOX_RELAY")]
        assert rest == ["SETTLE", "EVENT_PUBLISHING", "STEP_LOOK_AGAIN"]


class TestPublishing:
    def test_the_waiter_is_due_in_the_statement_that_publishes(self, declare: Declarations) -> None:
        queued = waiting(waits(declare))

        with transaction.atomic():
            assert publish_event("paid", {"amount": 7}) == 1
            ((due,),) = sql("SELECT run_at <= statement_timestamp() FROM x_jobs")
            assert due

        work()
        assert row(queued).result == 7
        assert step_of(queued, "payment").output == {"payload": {"amount": 7}}

    def test_a_worker_at_work_resumes_it(self, declare: Declarations) -> None:
        queued = start(waits(declare))
        with working():
            wait_for_state(queued, "suspended")
            publish_event("paid", {"amount": 7})
            wait_for_state(queued, "done")

        assert row(queued).attempt == 1

    def test_one_that_is_rolled_back_is_never_delivered(self, declare: Declarations) -> None:
        queued = waiting(waits(declare))

        with rolled_back():
            assert publish_event("paid", {"amount": 7}) == 1
        work()
        sql("UPDATE x_jobs SET run_at = now()")
        work()

        assert state(queued) == "suspended"
        assert not Event.objects.all()

    def test_it_reaches_every_run_that_waits(self, declare: Declarations) -> None:
        handle = waits(declare)
        queued = [waiting(handle) for _ in range(3)]

        assert publish_event("paid", {"amount": 7}) == 3
        work()

        assert [row(one).result for one in queued] == [7, 7, 7]

    def test_two_statements_write_it(self) -> None:
        with exchanges() as seen:
            publish_event("paid", {})

        assert seen == ["EVENT_ANNOUNCE", "EVENT_PUBLISH", "COMMIT"]

    @pytest.mark.parametrize(
        ("name", "payload", "options"),
        [
            ("", {}, {}),
            ("n" * 201, {}, {}),
            ("a\x00", {}, {}),
            (7, {}, {}),
            ("paid", {1, 2}, {}),
            ("paid", float("nan"), {}),
            ("paid", "boom\x00", {}),
            ("paid", {}, {"correlation_key": ""}),
            ("paid", {}, {"correlation_key": "\ud800"}),
            ("paid", {}, {"ttl": 0}),
            ("paid", {}, {"ttl": "soon"}),
        ],
    )
    def test_what_cannot_be_published_is_refused_before_any_statement(
        self, name: Any, payload: object, options: dict[str, Any]
    ) -> None:
        with exchanges() as seen, pytest.raises(JobsError) as refused:
            publish_event(name, payload, **options)

        assert refused.value.code == "X_JOB_EVENT_REFUSED"
        assert seen == []


class TestMatching:
    def test_with_a_match_only_its_own_key_is_taken(self, declare: Declarations) -> None:
        queued = waiting(waits(declare, match="o-1"))

        assert publish_event("paid", {"amount": 1}) == 0
        assert publish_event("paid", {"amount": 2}, correlation_key="o-2") == 0
        assert publish_event("paid", {"amount": 3}, correlation_key="O-1") == 0
        assert publish_event("refunded", {"amount": 4}, correlation_key="o-1") == 0
        work()
        assert state(queued) == "suspended"

        assert publish_event("paid", {"amount": 5}, correlation_key="o-1") == 1
        work()
        assert row(queued).result == 5

    @pytest.mark.parametrize("key", [None, "o-1"])
    def test_without_one_any_key_is_taken(self, declare: Declarations, key: str | None) -> None:
        queued = waiting(waits(declare))

        publish_event("paid", {"amount": 7}, correlation_key=key)
        work()

        assert row(queued).result == 7

    def test_the_earliest_wins_and_the_others_are_not_consumed(self, declare: Declarations) -> None:
        handle = waits(declare)
        queued = [waiting(handle) for _ in range(2)]

        for amount in (1, 2, 3):
            publish_event("paid", {"amount": amount})
        work()

        assert [row(one).result for one in queued] == [1, 1]
        assert Event.objects.count() == 3

    def test_one_of_before_the_run_is_not_taken(self, declare: Declarations) -> None:
        publish_event("paid", {"amount": 1})
        queued = waiting(waits(declare))
        sql("UPDATE x_jobs SET run_at = now()")
        work()

        assert state(queued) == "suspended"

    def test_one_that_has_expired_is_not_taken(self, declare: Declarations) -> None:
        queued = waiting(waits(declare))

        publish_event("paid", {"amount": 1}, ttl="1h")
        sql("UPDATE x_job_events SET expires_at = now()")
        work()

        assert state(queued) == "suspended"

    def test_two_waits_of_one_run_take_two_events(self, declare: Declarations) -> None:
        def body(run: Run[Ping]) -> list[Any]:
            first = run.wait_for_event("first", "paid", schema=dict)
            second = run.wait_for_event("second", "paid", schema=dict)
            return [first, second]

        queued = waiting(declare(body))
        publish_event("paid", {"amount": 1})
        work()
        assert state(queued) == "suspended"
        publish_event("paid", {"amount": 2})
        work()

        assert row(queued).result == [{"amount": 1}, {"amount": 2}]


class TestSchemas:
    @pytest.mark.parametrize("replayed", [False, True], ids=["first hit", "replay"])
    @pytest.mark.counts_claims
    def test_a_payload_that_does_not_fit_ends_the_job(
        self, declare: Declarations, *, replayed: bool
    ) -> None:
        schemas: list[Any] = [dict, dict, Paid] if replayed else [Paid, Paid]
        fails = FirstTime()

        def body(run: Run[Ping]) -> None:
            run.wait_for_event("payment", "paid", schema=schemas.pop(0))
            if replayed:
                fails()

        queued = waiting(declare(body, retry=TWICE))
        publish_event("paid", {"amount": "seven"})
        work()
        sql("UPDATE x_jobs SET run_at = now()")
        work()

        assert state(queued) == "dead"
        assert "X_JOB_EVENT_INVALID: The event of the wait 'payment' does not fit" in str(
            row(queued).last_error
        )
        assert "seven" not in str(row(queued).last_error)

    def test_the_payload_of_null_is_an_event_and_no_timeout(self, declare: Declarations) -> None:
        def body(run: Run[Ping]) -> Any:
            return [run.wait_for_event("payment", "paid", schema=type(None))]

        queued = waiting(declare(body))
        publish_event("paid", None)
        work()

        assert step_of(queued, "payment").output == {"payload": None}


class TestTimeouts:
    def test_nothing_is_answered_and_kept_on_every_replay(self, declare: Declarations) -> None:
        calls, fails = Calls(), FirstTime()

        def body(run: Run[Ping]) -> Any:
            answer = run.wait_for_event("payment", "paid", schema=Paid, timeout="1h")
            calls.append(answer)
            fails()
            return answer

        queued = waiting(declare(body, retry=TWICE))
        time_out(queued)
        work()
        publish_event("paid", {"amount": 7})
        sql("UPDATE x_jobs SET run_at = now() WHERE state = 'ready'")
        work()

        assert calls == [None, None]
        assert (state(queued), row(queued).result) == ("done", None)
        assert step_of(queued, "payment").output is None

    def test_a_required_event_that_does_not_come_fails_the_attempt(
        self, declare: Declarations
    ) -> None:
        def body(run: Run[Ping]) -> Any:
            return run.wait_for_event("payment", "paid", schema=Paid, timeout="1h", required=True)

        queued = waiting(declare(body, retry=Retry(attempts=1)))
        time_out(queued)
        work()

        assert state(queued) == "dead"
        assert "X_JOB_TIMEOUT: The wait 'payment' ended without an event." in str(
            row(queued).last_error
        )

    def test_an_event_that_came_first_wins_over_a_timeout_that_has_passed(
        self, declare: Declarations
    ) -> None:
        queued = waiting(waits(declare, timeout="1h"))

        publish_event("paid", {"amount": 7})
        time_out(queued)
        work()

        assert row(queued).result == 7

    def test_it_ends_by_itself(self, declare: Declarations) -> None:
        queued = start(waits(declare, timeout="50ms"))

        with working():
            wait_for_state(queued, "done")

        assert row(queued).result == "nothing"

    def test_an_answer_is_kept_when_the_event_is_gone(self, declare: Declarations) -> None:
        fails = FirstTime()

        def body(run: Run[Ping]) -> Any:
            paid = run.wait_for_event("payment", "paid", schema=dict)
            fails()
            return paid

        queued = waiting(declare(body, retry=TWICE))
        publish_event("paid", {"amount": 7})
        work()
        Event.objects.all().delete()
        publish_event("paid", {"amount": 8})
        sql("UPDATE x_jobs SET run_at = now()")
        work()

        assert row(queued).result == {"amount": 7}


def test_a_publisher_and_a_cancel_do_not_wake_what_is_cancelled(declare: Declarations) -> None:
    queued = waiting(waits(declare))
    cancel_job(str(queued.id))

    assert publish_event("paid", {"amount": 7}) == 0
    work()
    assert state(queued) == "cancelled"


def test_an_event_may_be_published_by_a_run_and_only_with_its_step(declare: Declarations) -> None:
    fails = FirstTime()

    def tell() -> None:
        publish_event("paid", {"amount": 7})
        fails()

    queued = waiting(waits(declare))
    teller = declare(lambda run: run.atomic("tell", tell), retry=ONCE)
    run_to_the_end(teller)
    assert state(queued) == "suspended"
    run_to_the_end(teller)

    assert row(queued).result == 7
    assert second_connection(Event.objects.count).result(PATIENCE) == 1
