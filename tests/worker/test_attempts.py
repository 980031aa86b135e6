"""A job from its claim to its end: it runs as often as declared, and the row tells how it went."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from tests.builders import (
    Declarations,
    Ping,
    a_job,
    reloaded,
    states,
    wait_until,
    without_slots,
)
from tests.worker.running import (
    Events,
    a_worker_process,
    cut_waits_short,
    on_duty,
    quick,
    work,
    work_out,
)
from ultimate_jobs import Retry, Run, register_error_retry
from ultimate_jobs.core import retry as classification
from ultimate_jobs.core.states import JobState
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import ConcurrencyUnenforceable, RateLimited
from ultimate_jobs.models import Counter, Job as JobRow
from ultimate_jobs.worker.loop import Worker

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class Declined(Exception):
    """An error of an application, with a code of its own."""

    code = "DECLINED"


def fail(run: Run[Ping]) -> object:
    raise LookupError("boom")


def test_a_job_runs_once_and_its_result_is_stored(declare: Declarations) -> None:
    starts: list[str] = []

    def body(run: Run[Ping]) -> object:
        starts.append(run.input.key)
        return {"answer": [1, "é", None, 2.5]}

    ping = declare(body)
    ping.enqueue(Ping("a"))

    stats = work(ping)

    row = JobRow.objects.get()
    assert starts == ["a"]
    assert (row.state, row.attempt, row.claim) == ("done", 1, 1)
    assert row.result == {"answer": [1, "é", None, 2.5]}
    assert (row.last_error, row.claimed_by, row.visible_at) == (None, None, None)
    assert (stats.processed, stats.failed, stats.dead_lettered, stats.abandoned) == (1, 0, 0, 0)


def test_a_body_is_told_which_run_and_which_attempt_it_is(declare: Declarations) -> None:
    seen: list[Run[Ping]] = []

    def body(run: Run[Ping]) -> None:
        seen.append(run)
        if run.attempt == 1:
            raise LookupError

    ping = declare(body, retry=Retry(attempts=2))
    queued = ping.enqueue(Ping("a", load={"n": 1}))

    work_out(ping)

    assert [run.attempt for run in seen] == [1, 2]
    assert [run.final_attempt for run in seen] == [False, True]
    assert {run.job_id for run in seen} == {queued.id}
    assert {run.run_id for run in seen} == {queued.run_id}
    assert all(run.input == Ping("a", load={"n": 1}) for run in seen)


def test_every_due_job_runs_exactly_once_whatever_the_room(declare: Declarations) -> None:
    starts: list[str] = []
    ping = declare(lambda run: starts.append(run.input.key))
    ping.enqueue_many([Ping(f"k-{n}") for n in range(101)])

    work(ping, concurrency=3)

    assert sorted(starts) == sorted(f"k-{n}" for n in range(101))
    assert states() == {"done": 101}


def test_a_failed_attempt_waits_for_its_backoff_by_the_databases_clock(
    declare: Declarations,
) -> None:
    ping = declare(fail, retry=Retry(attempts=4, delay="10m", jitter=False))
    ping.enqueue(Ping("a"))

    for attempt, wait in ((1, 10), (2, 20), (3, 40)):
        work(ping)
        row = JobRow.objects.get()
        assert (row.state, row.attempt) == ("ready", attempt)
        assert row.run_at - row.updated_at == wait * MINUTE
        assert row.last_error is not None
        assert row.last_error.startswith("LookupError: boom\n")
        assert work(ping).failed == 0, "it was not due yet"
        cut_waits_short()

    work(ping)

    assert states() == {"dead": 1}


def test_jitter_spreads_a_wait_over_its_upper_half(declare: Declarations) -> None:
    ping = declare(fail, retry=Retry(attempts=2, delay="100m", max_delay="100m"))
    ping.enqueue_many([Ping(f"k-{n}") for n in range(30)])
    known = Registry()
    known.add(ping)

    Worker(get_driver(), known, quick(), concurrency=4, dice=random.Random(7)).run(until_idle=True)  # noqa: S311

    waits = [(row.run_at - row.updated_at) / MINUTE for row in JobRow.objects.all()]
    assert all(50 <= wait <= 100 for wait in waits)
    assert min(waits) < 65
    assert max(waits) > 85


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_attempts_are_starts_in_all_and_the_last_one_knows_it(
    declare: Declarations, attempts: int
) -> None:
    starts: list[tuple[int, bool]] = []

    def body(run: Run[Ping]) -> None:
        starts.append((run.attempt, run.final_attempt))
        raise LookupError

    ping = declare(body, retry=Retry(attempts=attempts))
    ping.enqueue(Ping("a"))

    work_out(ping)

    assert starts == [(n, n == attempts) for n in range(1, attempts + 1)]
    assert states() == {"dead": 1}
    assert work(ping).failed == 0


def test_a_crashed_start_counts_like_one_that_raised(declare: Declarations) -> None:
    starts: list[int] = []

    def body(run: Run[Ping]) -> None:
        starts.append(run.attempt)
        raise LookupError

    ping = declare(body, retry=Retry(attempts=3))
    a_job(
        JobState.RUNNING,
        name=ping.name,
        claimed_by="a worker that died",
        visible_for=-SECOND,
        input={"key": "a", "org": "acme", "load": None},
    )

    work_out(ping)

    assert starts == [2, 3]
    assert states() == {"dead": 1}


def test_a_lapsed_final_attempt_is_buried_and_not_started_again(
    declare: Declarations, events: Events
) -> None:
    starts: list[int] = []
    ping = declare(lambda run: starts.append(run.attempt))
    row = a_job(
        JobState.RUNNING,
        name=ping.name,
        claimed_by="a worker that died",
        visible_for=-SECOND,
        attempt=3,
    )

    stats = work(ping)

    stored = reloaded(row)
    assert starts == []
    assert (stored.state, stored.attempt) == ("dead", 3)
    assert stored.last_error is not None
    assert stored.last_error.startswith("X_JOB_LEASE_LOST")
    assert (stats.failed, stats.dead_lettered) == (1, 1)
    assert [said["id"] for said in events.named("jobs.claim.exhausted")] == [row.id]
    assert Counter.objects.get().dead == 1


def test_a_terminal_code_ends_the_job_on_the_attempt_that_raised_it(
    declare: Declarations, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classification, "_registered", {})
    register_error_retry({"DECLINED": "terminal"})

    def body(run: Run[Ping]) -> None:
        raise Declined("card refused")

    ping = declare(body, retry=Retry(attempts=5))
    ping.enqueue(Ping("a"))

    work(ping)

    row = JobRow.objects.get()
    assert (row.state, row.attempt) == ("dead", 1)
    assert row.last_error is not None
    first = row.last_error.partition("\n")[0]
    assert first.endswith("Declined: card refused (not retried: DECLINED is terminal)")
    (said,) = events.named("jobs.attempt.failed")
    assert (said["code"], said["stop"]) == ("DECLINED", "terminal")


def test_an_unclassified_code_leaves_the_attempt_count_to_decide(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        raise Declined("card refused")

    ping = declare(body, retry=Retry(attempts=2))
    ping.enqueue(Ping("a"))

    work(ping)

    assert (JobRow.objects.get().state, JobRow.objects.get().attempt) == ("ready", 1)


def test_a_spent_budget_waits_as_long_as_it_says_and_costs_no_attempt(
    declare: Declarations,
) -> None:
    def body(run: Run[Ping]) -> None:
        raise RateLimited(5_400)

    ping = declare(body, retry=Retry(attempts=1))
    ping.enqueue(Ping("a"))

    work(ping)

    row = JobRow.objects.get()
    assert (row.state, row.attempt, row.last_error) == ("ready", 0, None)
    assert row.run_at - row.updated_at == 90 * MINUTE
    assert not Counter.objects.exists()


def test_exhausted_attempts_are_dead_lettered_with_the_last_error(
    declare: Declarations, events: Events
) -> None:
    ping = declare(fail, retry=Retry(attempts=2))
    ping.enqueue(Ping("a"))

    work_out(ping)

    row = JobRow.objects.get()
    assert (row.state, row.attempt, row.max_attempts) == ("dead", 2, 2)
    assert row.last_error is not None
    assert row.last_error.startswith("LookupError: boom\n")
    assert [said["stop"] for said in events.named("jobs.attempt.failed")] == [
        None,
        "attempts-exhausted",
    ]
    counts = Counter.objects.values_list("done", "retried", "failed", "dead")
    assert [sum(column) for column in zip(*counts, strict=True)] == [0, 1, 0, 1]


def test_a_job_without_a_dead_letter_ends_failed(declare: Declarations) -> None:
    ping = declare(fail, retry=Retry(attempts=1, dead_letter=False))
    ping.enqueue(Ping("a"))

    stats = work(ping)

    row = JobRow.objects.get()
    assert row.state == "failed"
    assert row.last_error is not None
    assert row.last_error.startswith("LookupError: boom")
    assert (stats.failed, stats.dead_lettered) == (1, 0)
    assert Counter.objects.get().failed == 1


def test_a_success_after_a_failure_leaves_no_error_behind(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> str:
        if run.attempt == 1:
            raise LookupError
        return "well"

    ping = declare(body)
    ping.enqueue(Ping("a"))

    work_out(ping)

    row = JobRow.objects.get()
    assert (row.state, row.attempt, row.result, row.last_error) == ("done", 2, "well", None)


def test_a_job_that_returns_nothing_has_a_stored_null(declare: Declarations) -> None:
    ping = declare()
    ping.enqueue(Ping("a"))

    work(ping)

    assert JobRow.objects.filter(result__isnull=True).count() == 0
    assert JobRow.objects.get().result is None


def test_a_body_may_enqueue_more_work_which_runs_too(declare: Declarations) -> None:
    second = declare()
    first = declare(lambda run: second.enqueue(Ping(f"after {run.input.key}")).deduped)
    first.enqueue(Ping("a"))

    work(first, second)

    assert states() == {"done": 2}


def test_a_body_that_enqueues_its_own_key_is_answered_with_itself(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> str:
        again = ping.enqueue(run.input)
        assert again.deduped
        return str(again.id)

    ping = declare(body)
    queued = ping.enqueue(Ping("a"))

    work(ping)

    assert JobRow.objects.get().result == str(queued.id)


def test_a_retry_handed_back_falls_due_without_waiting_for_the_longest_poll(
    declare: Declarations,
) -> None:
    def body(run: Run[Ping]) -> None:
        if run.attempt == 1:
            raise LookupError

    ping = declare(body, retry=Retry(attempts=2, delay="200ms", jitter=False))
    ping.enqueue(Ping("a"))

    with on_duty(ping, poll_interval=timedelta(hours=5), idle_poll_max=timedelta(hours=5)):
        wait_until(lambda: states() == {"done": 1})


def test_a_cap_the_driver_cannot_hold_keeps_a_worker_from_starting(declare: Declarations) -> None:
    capped = declare(concurrency=1)

    with without_slots(), pytest.raises(ConcurrencyUnenforceable, match=capped.name):
        a_worker_process(capped)
