"""A step's own retries and its own ceiling."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tests.builders import PATIENCE, Declarations, Ping, out_of_time, wait_until
from tests.steps.runs import (
    ONCE,
    Calls,
    finish,
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
from ultimate_jobs import CancelToken, JobsError, RateLimited, Retry, Run

pytestmark = pytest.mark.django_db(transaction=True)

THRICE = Retry(attempts=3, delay="1ms", jitter=False)


class BusyError(JobsError):
    """A provider that says when to come back."""

    code = "TESTS_BUSY"
    retry = "retry-after"


class TestRetries:
    def test_they_use_up_no_attempt_of_the_job(self, declare: Declarations) -> None:
        calls = Calls()

        def flaky() -> str:
            calls.append("flaky")
            if len(calls) < 3:
                raise RuntimeError("not yet")
            return "third time lucky"

        def body(run: Run[Ping]) -> object:
            return run.step("flaky", flaky, retry=THRICE)

        ended = run_to_the_end(declare(body, retry=ONCE))

        assert (ended.state, ended.attempt) == ("done", 1)
        assert ended.result == "third time lucky"
        assert step_of(ended, "flaky").attempts == 3

    def test_when_they_are_spent_the_attempt_fails(self, declare: Declarations) -> None:
        calls = Calls()

        def broken() -> None:
            calls.append("broken")
            raise RuntimeError("never")

        def body(run: Run[Ping]) -> None:
            run.step("broken", broken, retry=THRICE)

        ended = run_to_the_end(declare(body, retry=ONCE))

        assert (ended.state, ended.attempt) == ("dead", 1)
        assert str(ended.last_error).startswith("RuntimeError: never")
        assert len(calls) == 3

    def test_an_error_that_is_terminal_is_not_tried_again(self, declare: Declarations) -> None:
        calls = Calls()

        def unstorable() -> object:
            calls.append("unstorable")
            return object()

        def body(run: Run[Ping]) -> None:
            run.step("unstorable", unstorable, retry=THRICE)

        ended = run_to_the_end(declare(body, retry=ONCE))

        assert (ended.state, ended.attempt) == ("dead", 1)
        assert calls == ["unstorable"]

    def test_an_error_that_names_a_time_is_tried_again_then(self, declare: Declarations) -> None:
        def busy() -> None:
            raise BusyError("The provider is busy.", meta={"retry_after_seconds": 120})

        def body(run: Run[Ping]) -> None:
            run.step("busy", busy, retry=THRICE)

        queued = start(declare(body, retry=ONCE))
        work()

        assert state(queued) == "suspended"
        assert row(queued).run_at - row(queued).updated_at == timedelta(seconds=120)

    def test_a_spent_budget_is_no_try_of_the_step(self, declare: Declarations) -> None:
        def limited() -> None:
            raise RateLimited(7_200)

        def body(run: Run[Ping]) -> None:
            run.step("limited", limited, retry=Retry(attempts=3, max_delay="1m"))

        queued = start(declare(body, retry=ONCE))
        work()

        assert (state(queued), row(queued).attempt) == ("ready", 0)
        assert row(queued).run_at - row(queued).updated_at == timedelta(seconds=7_200)
        assert trace(row(queued)) == []

    def test_the_run_is_suspended_meanwhile_and_the_steps_before_replay(
        self, declare: Declarations
    ) -> None:
        calls = Calls()

        def broken() -> None:
            calls.append("broken")
            raise RuntimeError("not now")

        def body(run: Run[Ping]) -> None:
            run.step("first", calls("first"))
            run.step("broken", broken, retry=Retry(attempts=3, delay="1h", jitter=False))

        queued = start(declare(body, retry=ONCE))
        work()

        assert state(queued) == "suspended"
        assert row(queued).attempt == 0
        assert trace(queued) == [("first", "completed"), ("broken", "failed")]
        finish(queued)
        assert calls == ["first", "broken", "broken", "broken"]

    def test_a_body_that_catches_exceptions_does_not_catch_the_suspension(
        self, declare: Declarations
    ) -> None:
        caught: list[BaseException] = []

        def broken() -> None:
            raise RuntimeError("not now")

        def body(run: Run[Ping]) -> None:
            try:
                run.step("broken", broken, retry=Retry(attempts=2, delay="1h"))
            except Exception as error:  # noqa: BLE001 - as a body may
                caught.append(error)

        queued = start(declare(body))
        work()

        assert state(queued) == "suspended"
        assert caught == []


class TestCeilings:
    def test_a_step_that_listens_is_told_and_then_fails_naming_itself(
        self, declare: Declarations
    ) -> None:
        told: list[bool] = []

        def slow(signal: CancelToken) -> str:
            told.append(signal.wait(PATIENCE))
            return "too late"

        with out_of_time():
            ended = run_to_the_end(
                declare(lambda run: run.step("slow", slow, timeout="50ms"), retry=ONCE)
            )

        assert told == [True]
        assert ended.state == "dead"
        assert "X_JOB_TIMEOUT: The step 'slow' ran past its timeout" in str(ended.last_error)
        assert trace(ended) == [("slow", "failed")]

    def test_a_body_can_handle_it_and_go_on(self, declare: Declarations) -> None:
        def slow(signal: CancelToken) -> None:
            signal.wait(PATIENCE)

        def body(run: Run[Ping]) -> object:
            try:
                run.step("slow", slow, timeout="50ms")
            except JobsError as error:
                code = error.code
                return run.step("instead", lambda: code)
            return None

        with out_of_time():
            ended = run_to_the_end(declare(body, retry=ONCE))

        assert (ended.state, ended.result) == ("done", "X_JOB_TIMEOUT")

    def test_a_step_that_does_not_listen_loses_its_attempt_and_writes_nothing_later(
        self, declare: Declarations
    ) -> None:
        late: list[str] = []
        release = threading.Event()

        def deaf() -> None:
            release.wait(PATIENCE)

        def body(run: Run[Ping]) -> None:
            try:
                run.step("deaf", deaf, timeout="50ms")
                run.step("after", lambda: None)
            except JobsError as error:
                late.append(error.code)
                raise

        queued = start(declare(body, retry=ONCE))
        with working():
            wait_for_state(queued, "dead")
            release.set()
            wait_until(lambda: late, what="the body to come back")

        assert "The step 'deaf' ran past its timeout" in str(row(queued).last_error)
        assert trace(queued) == []

    def test_the_place_of_a_step_that_does_not_listen_is_filled(
        self, declare: Declarations
    ) -> None:
        release = threading.Event()
        deaf = declare(
            lambda run: run.step("deaf", lambda: release.wait(PATIENCE), timeout="50ms"),
            retry=ONCE,
        )
        quick = declare()

        stuck = [start(deaf) for _ in range(3)]
        with working(concurrency=2):
            for queued in stuck:
                wait_for_state(queued, "dead")
            wait_for_state(start(quick), "done")
            release.set()

    def test_the_job_declares_one_for_every_step_and_a_step_its_own(
        self, declare: Declarations
    ) -> None:
        def slow(signal: CancelToken) -> None:
            signal.wait(PATIENCE)

        def patient(signal: CancelToken) -> bool:
            return signal.wait(0.1)

        def body(run: Run[Ping]) -> None:
            assert run.step("patient", patient, timeout="6h") is False
            run.step("slow", slow)

        ended = run_to_the_end(declare(body, retry=ONCE, step_timeout="50ms"))

        assert "The step 'slow' ran past its timeout" in str(ended.last_error)

    @pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "soon"])
    def test_one_that_cannot_be_meant_is_refused(
        self, declare: Declarations, timeout: float | str
    ) -> None:
        calls = Calls()

        ended = run_to_the_end(
            declare(lambda run: run.step("a", calls("a"), timeout=timeout), retry=ONCE)
        )

        assert calls == []
        assert "X_JOB_DECLARATION_INVALID" in str(ended.last_error)
