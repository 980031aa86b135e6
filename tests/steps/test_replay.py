"""A step: run once, stored before it answers, and answered alike ever after."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from django.utils.translation import gettext_lazy

from tests.builders import Declarations, Ping, at_once, second_connection, sql
from tests.steps.runs import ONCE, TWICE, Calls, FirstTime, row, run_to_the_end, start, trace, work
from tests.steps.wire import exchanges
from ultimate_jobs import Enqueued, Retry, Run
from ultimate_jobs.models import JobStep
from ultimate_jobs.operate.verbs import retry_job

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Point:
    x: int
    y: int


class Letter(str, Enum):  # noqa: UP042 - a member that is text and no StrEnum
    A = "a"


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("repr was called")


def a_list_in_itself() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


NINE_THIRTY = datetime(2026, 12, 1, 9, 30, 0, 123456, tzinfo=UTC)

STORED = {
    "a decimal": (Decimal("1.10"), "1.10"),
    "a uuid": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "an aware datetime": (NINE_THIRTY, "2026-12-01T09:30:00.123456+00:00"),
    "a naive datetime": (NINE_THIRTY.replace(tzinfo=None), "2026-12-01T09:30:00.123456"),
    "a tuple": ((1, 2), [1, 2]),
    "keys out of order": ({"bb": 1, "a": 2}, {"a": 2, "bb": 1}),
    "a large float": (1e16, 10_000_000_000_000_000),
    "minus zero": (-0.0, 0.0),
    "a long integer": (12345678901234567890123456789, 12345678901234567890123456789),
    "an enum member": (Letter.A, "a"),
    "a dataclass": (Point(1, 2), {"x": 1, "y": 2}),
    "nothing": (None, None),
    "no text": ("", ""),
    "zero": (0, 0),
    "false": (False, False),
    "an empty list": ([], []),
}

REFUSED = {
    "a set": {1, 2},
    "bytes": b"x",
    "two keys that become one": {1: "a", "1": "b"},
    "not a number": float("nan"),
    "infinity": float("inf"),
    "lazy text": gettext_lazy("Yes"),
    "what cannot be printed": Unprintable(),
    "a list that holds itself": a_list_in_itself(),
    "U+0000": "boom\x00tail",
    "half a surrogate pair": "\ud800",
    "U+0000 in a key": {"a\x00": 1},
    "a number without end": 10**5000,
}


@pytest.mark.parametrize("kind", STORED)
def test_a_body_gets_the_stored_form_at_once_and_on_replay(
    declare: Declarations, kind: str
) -> None:
    given, stored = STORED[kind]
    answers: list[str] = []
    calls, fails = Calls(), FirstTime()

    def body(run: Run[Ping]) -> None:
        answer = run.step("value", calls("value", given))
        answers.append(f"{type(answer).__name__} {json.dumps(answer)}")
        fails()

    ended = run_to_the_end(declare(body, retry=TWICE))

    assert ended.state == "done"
    assert answers == [f"{type(stored).__name__} {json.dumps(stored)}"] * 2
    assert calls == ["value"]


@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_stored_form_ends_the_job_and_stores_nothing(
    declare: Declarations, kind: str
) -> None:
    calls = Calls()

    ended = run_to_the_end(
        declare(lambda run: run.step("value", calls("value", REFUSED[kind])), retry=TWICE)
    )

    assert ended.state == "dead"
    assert str(ended.last_error).startswith("ultimate_jobs.errors.StepOutputUnserializable")
    assert "X_STEP_OUTPUT_UNSERIALIZABLE" in str(ended.last_error)
    assert "'value'" in str(ended.last_error)
    assert calls == ["value"]
    assert not JobStep.objects.filter(run_id=ended.run_id).exclude(status="failed")


def test_a_step_is_committed_before_it_answers(declare: Declarations) -> None:
    seen: list[tuple[str, Any]] = []

    def body(run: Run[Ping]) -> None:
        run.step("charge", lambda: {"id": "ch_1"})
        elsewhere = second_connection(
            lambda: list(JobStep.objects.filter(run_id=run.run_id).values_list("status", "output"))
        )
        seen.extend(elsewhere.result(5))

    run_to_the_end(declare(body))

    assert seen == [("completed", {"id": "ch_1"})]


def test_only_the_step_that_failed_runs_again(declare: Declarations) -> None:
    calls, fails = Calls(), FirstTime()

    def flaky() -> None:
        calls.append("second")
        fails()

    def body(run: Run[Ping]) -> None:
        run.step("first", calls("first"))
        run.step("second", flaky)
        run.step("third", calls("third"))

    ended = run_to_the_end(declare(body, retry=TWICE))

    assert calls == ["first", "second", "second", "third"]
    assert ended.attempt == 2
    assert trace(ended) == [
        ("first", "completed"),
        ("second", "completed"),
        ("third", "completed"),
    ]
    assert JobStep.objects.get(run_id=ended.run_id, name="second").attempts == 2


def test_a_failed_step_says_why_until_it_succeeds(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        run.step("ship", lambda: 1 / 0)

    ended = run_to_the_end(declare(body, retry=ONCE))

    step = JobStep.objects.get(run_id=ended.run_id)
    assert (step.status, step.attempts) == ("failed", 1)
    assert str(step.error).startswith("ZeroDivisionError: division by zero")
    assert str(ended.last_error).startswith("ZeroDivisionError")


class TestTypes:
    @pytest.mark.counts_claims
    def test_returns_answers_the_declared_type_at_once_and_on_replay(
        self, declare: Declarations
    ) -> None:
        answers: list[object] = []
        fails = FirstTime()

        def body(run: Run[Ping]) -> None:
            answers.append(run.step("point", lambda: {"x": 1, "y": 2}, returns=Point))
            answers.append(run.step("price", lambda: Decimal("1.10"), returns=Decimal))
            fails()

        run_to_the_end(declare(body, retry=TWICE))

        assert answers == [Point(1, 2), Decimal("1.10")] * 2

    def test_an_output_that_does_not_fit_its_type_ends_the_job(self, declare: Declarations) -> None:
        calls = Calls()

        ended = run_to_the_end(
            declare(
                lambda run: run.step("point", calls("point", {"x": "one"}), returns=Point),
                retry=TWICE,
            )
        )

        assert ended.state == "dead"
        assert "X_STEP_OUTPUT_UNSERIALIZABLE" in str(ended.last_error)
        assert calls == ["point"]


class TestCosts:
    def test_a_run_without_steps_is_a_claim_and_a_settle(self, declare: Declarations) -> None:
        start(declare())

        with exchanges() as seen:
            work()

        assert [name for name in seen if name not in ("CLAIM", "OUTBOX_RELAY")] == ["SETTLE"]

    @pytest.mark.counts_claims
    def test_a_step_is_one_statement_and_one_commit(self, declare: Declarations) -> None:
        def body(run: Run[Ping]) -> None:
            for number in range(5):
                run.step(f"step {number}", lambda: 1)

        start(declare(body))

        with exchanges() as seen:
            work()

        assert seen.count("STEP_PUT") == 5
        assert set(seen) == {"CLAIM", "STEP_PUT", "SETTLE", "OUTBOX_RELAY"}

    @pytest.mark.counts_claims
    def test_a_first_claim_reads_no_steps_and_a_later_one_reads_them_once(
        self, declare: Declarations
    ) -> None:
        fails = FirstTime()

        def body(run: Run[Ping]) -> None:
            for number in range(5):
                run.step(f"step {number}", lambda: 1)
            fails()

        queued = start(declare(body, retry=Retry(attempts=2, delay="1h")))
        with exchanges() as first:
            work()
        sql("UPDATE x_jobs SET run_at = now()")
        with exchanges() as second:
            work()

        assert row(queued).state == "done"
        assert "STEP_LOAD" not in first
        assert second.count("STEP_LOAD") == 1
        assert "STEP_PUT" not in second

    def test_a_later_claim_of_a_run_without_steps_reads_none(self, declare: Declarations) -> None:
        fails = FirstTime()

        queued = start(declare(lambda run: fails(), retry=Retry(attempts=2, delay="1h")))
        work()
        sql("UPDATE x_jobs SET run_at = now()")
        with exchanges() as second:
            work()

        assert row(queued).state == "done"
        assert "STEP_LOAD" not in second


@pytest.mark.counts_claims
class TestChangedBodies:
    """Two versions of a body, the second one deployed between two attempts of a run."""

    def test_a_step_added_at_the_end_runs_and_the_others_replay(
        self, declare: Declarations
    ) -> None:
        assert self.deployed(declare, ["a", "b"], ["a", "b", "c"]) == ["a", "b", "c"]

    def test_a_step_added_in_front_runs_and_the_others_replay(self, declare: Declarations) -> None:
        assert self.deployed(declare, ["a", "b"], ["new", "a", "b"]) == ["a", "b", "new"]

    def test_a_removed_step_is_not_missed(self, declare: Declarations) -> None:
        assert self.deployed(declare, ["a", "b", "c"], ["a", "c"]) == ["a", "b", "c"]

    def test_a_renamed_step_runs_again_under_its_new_name(self, declare: Declarations) -> None:
        assert self.deployed(declare, ["a", "b"], ["a", "bee"]) == ["a", "b", "bee"]

    def test_reordered_steps_keep_their_own_answers(self, declare: Declarations) -> None:
        assert self.deployed(declare, ["a", "b"], ["b", "a"]) == ["a", "b"]

    def deployed(self, declare: Declarations, old: list[str], new: list[str]) -> list[str]:
        versions = [old, new]
        calls = Calls()
        answers: list[object] = []

        def body(run: Run[Ping]) -> None:
            fails = len(versions) == 2
            names = versions.pop(0)
            answers[:] = [run.step(name, calls(name, f"of {name}")) for name in names]
            if fails:
                raise RuntimeError("a deploy comes in between")

        assert run_to_the_end(declare(body, retry=TWICE)).state == "done"
        assert answers == [f"of {name}" for name in new]
        return list(calls)


class TestRetryFromAStep:
    def test_the_step_and_all_after_it_run_again(self, declare: Declarations) -> None:
        calls = Calls()

        def body(run: Run[Ping]) -> None:
            for number in range(1, 6):
                run.step(f"step {number}", calls(number))

        ended = run_to_the_end(declare(body))
        retry_job(str(ended.id), from_step="step 2")
        work()

        assert row(ended).state == "done"
        assert calls == [1, 2, 3, 4, 5, 2, 3, 4, 5]
        assert [name for name, _ in trace(ended)] == [f"step {n}" for n in range(1, 6)]


def test_a_step_whose_stored_status_is_not_known_is_never_taken_for_one_not_run(
    declare: Declarations,
) -> None:
    calls, fails = Calls(), FirstTime()

    def body(run: Run[Ping]) -> None:
        run.step("charge", calls("charge"))
        fails()

    queued = start(declare(body, retry=Retry(attempts=2, delay="1h")))
    work()
    sql("ALTER TABLE x_job_steps DROP CONSTRAINT x_job_steps_status_known")
    try:
        sql("UPDATE x_job_steps SET status = 'from the future'")
        sql("UPDATE x_jobs SET run_at = now()")
        work()
    finally:
        sql("DELETE FROM x_job_steps")
        sql(
            "ALTER TABLE x_job_steps ADD CONSTRAINT x_job_steps_status_known CHECK"
            " (status IN ('completed', 'failed', 'sleeping', 'started', 'waiting'))"
        )

    assert calls == ["charge"]
    assert row(queued).state == "dead"
    assert "X_JOB_ROW_STATUS_UNKNOWN" in str(row(queued).last_error)


def test_two_runs_of_one_job_have_steps_of_their_own(declare: Declarations) -> None:
    handle = declare(lambda run: run.step("key", lambda: run.input.key))

    def one() -> Enqueued:
        return start(handle)

    first, second = at_once(one, one)
    work()

    assert row(first).result == row(first).input["key"]
    assert row(second).result == row(second).input["key"]
