"""Cancellation: told once, with a reason, to whoever listens or works on."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from tests.builders import PATIENCE
from ultimate_jobs.errors import Aborted, Draining, JobsError, JobTimeout, LeaseLost
from ultimate_jobs.process.cancel import (
    CancelToken,
    refuse_if_cancelled,
    run_to_completion,
    under,
)

LATE = JobTimeout("It ran past its timeout.")
MOVED = Draining("The worker is told to stop.")


def aborted(reason: JobsError = LATE) -> CancelToken:
    token = CancelToken()
    token.abort(reason)
    return token


# The token


def test_a_new_token_lets_the_run_go_on() -> None:
    token = CancelToken()

    assert not token.aborted
    assert token.reason is None
    token.raise_if_aborted()


def test_an_aborted_token_raises_its_reason() -> None:
    token = aborted(LATE)

    assert token.aborted
    with pytest.raises(JobTimeout) as caught:
        token.raise_if_aborted()
    assert caught.value is LATE


def test_the_first_reason_stays() -> None:
    token = CancelToken()

    assert token.abort(LATE)
    assert not token.abort(MOVED)
    assert token.reason is LATE


def test_an_abort_without_a_reason_is_one_that_was_cancelled() -> None:
    token = CancelToken()
    token.abort()

    assert isinstance(token.reason, Aborted)
    assert token.reason.code == "X_ABORTED"


def test_of_many_threads_exactly_one_aborts() -> None:
    token = CancelToken()
    gate = threading.Barrier(8)
    first: list[LeaseLost] = []

    def abort(reason: LeaseLost) -> None:
        gate.wait(PATIENCE)
        if token.abort(reason):
            first.append(reason)

    threads = [threading.Thread(target=abort, args=[LeaseLost(f"no. {n}")]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert [token.reason] == first


# Waiting


def test_a_wait_nobody_aborts_lasts_its_time() -> None:
    began = time.monotonic()

    assert not CancelToken().wait(0.05)
    assert time.monotonic() - began >= 0.05


def test_an_abort_ends_the_wait_in_progress() -> None:
    token = CancelToken()
    waits = threading.Event()
    answers: list[bool] = []

    def wait() -> None:
        waits.set()
        answers.append(token.wait(10 * PATIENCE))

    waiter = threading.Thread(target=wait)
    waiter.start()
    waits.wait(PATIENCE)
    token.abort()
    waiter.join(PATIENCE)

    assert answers == [True]


def test_a_wait_after_the_abort_is_over_at_once() -> None:
    began = time.monotonic()

    assert aborted().wait(10 * PATIENCE)
    assert aborted().wait()
    assert time.monotonic() - began < PATIENCE


# Callbacks


def test_callbacks_are_called_once_in_order_with_the_reason() -> None:
    token = CancelToken()
    heard: list[tuple[str, JobsError]] = []
    token.on_abort(lambda reason: heard.append(("first", reason)))
    token.on_abort(lambda reason: heard.append(("second", reason)))
    assert not heard

    token.abort(LATE)
    token.abort(MOVED)

    assert heard == [("first", LATE), ("second", LATE)]


def test_a_callback_that_comes_late_is_called_at_once() -> None:
    heard: list[JobsError] = []

    aborted(LATE).on_abort(heard.append)

    assert heard == [LATE]


def test_a_callback_finds_the_token_aborted() -> None:
    token = CancelToken()
    found: list[bool] = []
    token.on_abort(lambda _: found.append(token.aborted))
    token.abort()

    assert found == [True]


def test_a_callback_may_register_another_one() -> None:
    token = CancelToken()
    heard: list[JobsError] = []
    token.on_abort(lambda _: token.on_abort(heard.append))
    token.abort(LATE)

    assert heard == [LATE]


def test_a_callback_that_raises_keeps_neither_the_others_nor_the_aborter_from_going_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    token = CancelToken()
    heard: list[JobsError] = []

    def broken(reason: JobsError) -> None:
        raise OSError("a secret")

    token.on_abort(broken)
    token.on_abort(heard.append)
    with caplog.at_level(logging.ERROR):
        assert token.abort(LATE)

    assert heard == [LATE]
    assert "jobs.abort.callback-failed error=OSError" in caplog.text
    assert "secret" not in caplog.text


# Writes of a cancelled run


def test_outside_a_run_nothing_is_refused() -> None:
    refuse_if_cancelled()


def test_a_run_that_goes_on_may_write() -> None:
    with under(CancelToken()):
        refuse_if_cancelled()


def test_a_cancelled_run_is_refused_with_its_reason() -> None:
    token = CancelToken()
    with under(token):
        token.abort(MOVED)
        with pytest.raises(Draining) as caught:
            refuse_if_cancelled()

    assert caught.value is MOVED


def test_work_that_must_land_is_let_through_and_only_that() -> None:
    with under(aborted()):
        with run_to_completion():
            refuse_if_cancelled()
        with pytest.raises(JobTimeout):
            refuse_if_cancelled()


def test_the_innermost_token_counts_and_the_one_before_it_afterwards() -> None:
    with under(aborted()):
        with under(CancelToken()):
            refuse_if_cancelled()
        with pytest.raises(JobTimeout):
            refuse_if_cancelled()
    refuse_if_cancelled()


def test_blocks_that_raise_put_the_token_back() -> None:
    with pytest.raises(ZeroDivisionError), under(aborted()), run_to_completion():
        _ = 1 / 0
    refuse_if_cancelled()


def test_another_thread_is_not_under_the_token() -> None:
    refused: list[JobsError] = []

    def write() -> None:
        try:
            refuse_if_cancelled()
        except JobsError as error:
            refused.append(error)

    with under(aborted()):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join(PATIENCE)

    assert not refused
