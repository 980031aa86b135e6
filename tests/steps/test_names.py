"""The name of a step is its identity: used once in a run, never reserved, compared exactly."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable
from contextvars import copy_context
from datetime import UTC, datetime

import pytest
from django.db import transaction

from tests.builders import PATIENCE, Declarations, Ping, second_connection
from tests.steps.runs import TWICE, Calls, FirstTime, row, run_to_the_end, start, trace, work
from ultimate_jobs import JobsError, Run
from ultimate_jobs.models import JobStep

pytestmark = pytest.mark.django_db(transaction=True)

Begin = Callable[[Run[Ping], str, Calls], object]
THEN = datetime(2030, 1, 1, tzinfo=UTC)

BEGINNINGS: dict[str, Begin] = {
    "step": lambda run, name, calls: run.step(name, calls(name)),
    "once": lambda run, name, calls: run.step(name, calls(name), once=True),
    "atomic": lambda run, name, calls: run.atomic(name, calls(name)),
    "sleep": lambda run, name, calls: run.sleep(name, "3d"),
    "sleep_until": lambda run, name, calls: run.sleep_until(name, THEN),
    "wait_for_event": lambda run, name, calls: run.wait_for_event(name, "paid", schema=dict),
}
every_kind = pytest.mark.parametrize("kind", BEGINNINGS)


class TestDuplicates:
    def test_the_second_step_of_a_name_is_refused_before_it_is_called(
        self, declare: Declarations
    ) -> None:
        calls = Calls()

        def body(run: Run[Ping]) -> None:
            for number in (1, 2, 3):
                run.step("send", calls(number))

        ended = run_to_the_end(declare(body, retry=TWICE))

        assert calls == [1]
        assert (ended.state, ended.attempt) == ("dead", 1)
        assert "X_STEP_DUPLICATE: The step 'send'" in str(ended.last_error)
        assert trace(ended) == [("send", "completed")]

    def test_it_is_refused_on_a_replay_too(self, declare: Declarations) -> None:
        calls, fails = Calls(), FirstTime()

        def body(run: Run[Ping]) -> None:
            run.step("send", calls(1))
            fails()
            run.step("send", calls(2))

        ended = run_to_the_end(declare(body, retry=TWICE))

        assert calls == [1]
        assert "X_STEP_DUPLICATE" in str(ended.last_error)

    @every_kind
    def test_no_kind_of_step_may_take_the_name_of_another(
        self, declare: Declarations, kind: str
    ) -> None:
        calls = Calls()

        def body(run: Run[Ping]) -> None:
            run.step("taken", lambda: None)
            BEGINNINGS[kind](run, "taken", calls)

        ended = run_to_the_end(declare(body))

        assert calls == []
        assert (ended.state, ended.attempt) == ("dead", 1)
        assert "X_STEP_DUPLICATE" in str(ended.last_error)

    @pytest.mark.counts_claims
    def test_of_two_threads_that_use_one_name_at_once_one_runs(self, declare: Declarations) -> None:
        calls = Calls()
        refused: list[str] = []
        both = threading.Barrier(2)

        def body(run: Run[Ping]) -> None:
            def use() -> None:
                both.wait(PATIENCE)
                try:
                    run.step("x", calls("x"))
                except JobsError as error:
                    refused.append(error.code)

            context = copy_context()
            other = second_connection(lambda: context.run(use))
            use()
            other.result(PATIENCE)

        ended = run_to_the_end(declare(body))

        assert calls == ["x"]
        assert refused == ["X_STEP_DUPLICATE"]
        assert trace(ended) == [("x", "completed")]

    def test_names_compare_exactly(self, declare: Declarations) -> None:
        composed = unicodedata.normalize("NFC", "café")
        decomposed = unicodedata.normalize("NFD", "café")
        names = ["send", "Send", "send ", composed, decomposed]
        calls, fails = Calls(), FirstTime()

        def body(run: Run[Ping]) -> list[object]:
            answers: list[object] = [run.step(name, calls(name, name)) for name in names]
            fails()
            return answers

        ended = run_to_the_end(declare(body, retry=TWICE))

        assert calls == names
        assert ended.result == names
        assert len(trace(ended)) == 5


class TestRefusedNames:
    @every_kind
    @pytest.mark.parametrize(
        "name",
        [
            "",
            "unwinding",
            "compensate:",
            "compensate:charge",
            "n" * 201,
            "a\x00b",
            "a\nb",
            "\ud800",
        ],
        ids=["empty", "unwinding", "bare", "compensate", "long", "nul", "newline", "surrogate"],
    )
    def test_a_name_that_cannot_be_ends_the_job_and_calls_nothing(
        self, declare: Declarations, kind: str, name: str
    ) -> None:
        calls = Calls()

        ended = run_to_the_end(declare(lambda run: BEGINNINGS[kind](run, name, calls), retry=TWICE))

        assert calls == []
        assert (ended.state, ended.attempt) == ("dead", 1)
        assert "X_JOB_DECLARATION_INVALID" in str(ended.last_error)
        assert trace(ended) == []

    def test_a_name_of_200_characters_and_one_that_only_looks_reserved_are_fine(
        self, declare: Declarations
    ) -> None:
        names = ["n" * 200, "Unwinding", "compensate", "unwinding 2", "ünwïnding", "日本"]

        ended = run_to_the_end(
            declare(lambda run: [run.step(name, lambda: None) for name in names])
        )

        assert [name for name, _ in trace(ended)] == names


class TestPlaces:
    """Where a step may not begin: in another one, and in a transaction of the body's own."""

    @every_kind
    @pytest.mark.parametrize("outer", ["step", "atomic"])
    def test_a_step_inside_a_step_is_refused(
        self, declare: Declarations, outer: str, kind: str
    ) -> None:
        calls = Calls()

        def body(run: Run[Ping]) -> None:
            begin = run.step if outer == "step" else run.atomic
            begin("outer", lambda: BEGINNINGS[kind](run, "inner", calls))

        ended = run_to_the_end(declare(body, retry=TWICE))

        assert calls == []
        assert (ended.state, ended.attempt) == ("dead", 1)
        assert "X_STEP_NESTED: The step 'inner' is called inside the step 'outer'" in str(
            ended.last_error
        )
        assert trace(ended) == [("outer", "failed")]

    @every_kind
    def test_a_step_inside_the_bodys_own_transaction_is_refused(
        self, declare: Declarations, kind: str
    ) -> None:
        calls = Calls()

        def body(run: Run[Ping]) -> None:
            with transaction.atomic():
                BEGINNINGS[kind](run, "charge", calls)

        ended = run_to_the_end(declare(body, retry=TWICE))

        assert calls == []
        assert (ended.state, ended.attempt) == ("dead", 1)
        assert "X_STEP_IN_TRANSACTION" in str(ended.last_error)
        assert "run.atomic" in str(ended.last_error)
        assert trace(ended) == []

    def test_a_step_after_a_transaction_is_fine(self, declare: Declarations) -> None:
        def body(run: Run[Ping]) -> None:
            with transaction.atomic():
                JobStep.objects.count()
            run.step("charge", lambda: None)

        assert run_to_the_end(declare(body)).state == "done"

    def test_a_function_that_opens_a_transaction_is_fine(self, declare: Declarations) -> None:
        def charge() -> int:
            with transaction.atomic():
                return JobStep.objects.count()

        assert run_to_the_end(declare(lambda run: run.step("charge", charge))).state == "done"


def test_a_swallowed_refusal_does_not_let_the_duplicate_through(declare: Declarations) -> None:
    calls = Calls()

    def body(run: Run[Ping]) -> str:
        run.step("send", calls(1))
        try:
            run.step("send", calls(2))
        except JobsError as error:
            return error.code
        return ""

    queued = start(declare(body))
    work()

    assert row(queued).result == "X_STEP_DUPLICATE"
    assert calls == [1]
