"""A claim takes due rows, in order, each once, and never more than it may."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from tests.builders import (
    LEASE,
    PATIENCE,
    Declarations,
    Ping,
    a_job,
    an_ending,
    at_once,
    claim,
    reloaded,
    rolled_back,
    second_connection,
    settle,
    some_jobs,
    sql,
    staged,
    states,
)
from ultimate_jobs.core.jsonform import loads
from ultimate_jobs.core.states import WAITING, JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import Job as JobRow

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


# What a claim does


def test_a_claimed_row_runs_under_a_new_claim_number(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    row = a_job(claim=4, attempt=1, last_error="once before", tenant_id="t-1", traceparent="tp")

    with django_assert_num_queries(1):
        (taken,) = claim(row.name, worker="w-1").jobs

    now_stored = reloaded(row)
    assert (now_stored.state, now_stored.attempt, now_stored.claim) == ("running", 2, 5)
    assert now_stored.claimed_by == "w-1"
    assert now_stored.visible_at is not None
    assert now_stored.visible_at - now_stored.updated_at == LEASE
    assert now_stored.last_error == "once before"
    assert (taken.id, taken.claim, taken.attempt) == (row.id, 5, 2)
    assert (taken.run_id, taken.max_attempts) == (row.run_id, row.max_attempts)
    assert (taken.tenant_id, taken.traceparent) == ("t-1", "tp")


def test_the_input_is_handed_on_as_stored_text(declare: Declarations) -> None:
    note = declare()
    note.enqueue(Ping("k", load={"bb": 10**30, "a": [1.5, "é"]}))

    (taken,) = claim(note.name).jobs

    assert note.parse(loads(taken.input)) == Ping("k", load={"a": [1.5, "é"], "bb": 10**30})


@pytest.mark.parametrize("state", sorted(WAITING))
def test_nothing_is_claimed_before_its_instant(state: JobState) -> None:
    a_job(state, due_in=HOUR)

    assert claim().jobs == []


# What is passed over


def test_a_row_that_somebody_holds_locked_is_passed_over_not_waited_for() -> None:
    locked, free = a_job(priority=1), a_job()
    has_lock, may_go = threading.Event(), threading.Event()

    def holder() -> None:
        with transaction.atomic():
            JobRow.objects.select_for_update().get(id=locked.id)
            has_lock.set()
            may_go.wait(PATIENCE)

    holding = second_connection(holder)
    assert has_lock.wait(PATIENCE)
    assert [job.id for job in claim().jobs] == [free.id]
    may_go.set()
    holding.result(PATIENCE)
    assert [job.id for job in claim().jobs] == [locked.id]


def test_a_claim_that_is_rolled_back_never_happened() -> None:
    row = a_job()

    with rolled_back():
        assert len(claim().jobs) == 1

    assert (reloaded(row).state, reloaded(row).claim) == ("ready", 0)


# How much


def test_each_queue_gives_at_most_its_share_and_all_together_at_most_the_room() -> None:
    for queue in ("a", "b", "c"):
        some_jobs(5, queue=queue)

    taken = claim(queues=["a", "b", "c"], room=5, share=2).jobs

    assert sorted(job.queue for job in taken) == ["a", "a", "b", "b", "c"]


PLANNERS = {
    "as it likes": [],
    "no hash": ["enable_hashjoin", "enable_mergejoin"],
    "no index": ["enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"],
    "no nested loop": ["enable_nestloop"],
    "no sort": ["enable_sort", "enable_material"],
}


@contextmanager
def planned(how: str) -> Iterator[None]:
    for switch in PLANNERS[how]:
        sql(f"SET {switch} = off")
    try:
        yield
    finally:
        for switch in PLANNERS[how]:
            sql(f"RESET {switch}")


@pytest.mark.parametrize("how", PLANNERS)
@pytest.mark.parametrize("queues", [["default"], ["a", "default", "b"]], ids=["one", "several"])
def test_a_claim_of_two_takes_two_on_stale_statistics_whatever_the_plan(
    how: str, queues: list[str]
) -> None:
    a_job(queue=queues[0])
    sql("VACUUM ANALYZE x_jobs")
    for number in range(40):
        a_job(queue=queues[number % len(queues)])

    with planned(how):
        taken = claim(queues=queues, room=2).jobs

    assert len(taken) == 2
    assert states() == {"ready": 39, "running": 2}


@pytest.mark.parametrize("how", PLANNERS)
def test_a_claim_of_two_lapsed_rows_takes_two_on_stale_statistics_whatever_the_plan(
    how: str,
) -> None:
    a_job(JobState.RUNNING, visible_for=-SECOND)
    sql("VACUUM ANALYZE x_jobs")
    some_jobs(40, JobState.RUNNING, visible_for=-SECOND)

    with planned(how):
        taken = claim(worker="w-2", room=2).jobs

    assert len(taken) == 2
    assert JobRow.objects.filter(claimed_by="w-2").count() == 2


@pytest.mark.parametrize("how", PLANNERS)
def test_a_relay_pass_of_two_moves_two_on_stale_statistics_whatever_the_plan(
    declare: Declarations, how: str
) -> None:
    note = declare()
    with transaction.atomic():
        note.enqueue(Ping("first"))
    sql("VACUUM ANALYZE x_outbox")
    with transaction.atomic():
        note.enqueue_many([Ping(f"k-{n}") for n in range(40)])

    with planned(how):
        done = get_driver().outbox.relay(2)

    assert (done.seen, done.published) == (2, 2)
    assert (JobRow.objects.count(), len(staged())) == (2, 39)


# Many claim at once


@pytest.mark.slow
def test_many_workers_take_every_row_once_between_them() -> None:
    some_jobs(300)

    def worker(name: str) -> list[object]:
        taken: list[object] = []
        while jobs := claim("tests.ping", worker=name, room=7).jobs:
            taken += [job.id for job in jobs]
            assert len(settle(*(an_ending(job) for job in jobs), worker=name)) == len(jobs)
        return taken

    parts = at_once(*(lambda n=n: worker(f"w-{n}") for n in range(6)))

    taken = [job for part in parts for job in part]
    assert len(taken) == len(set(taken)) == 300
    assert states() == {"done": 300}
    assert not JobRow.objects.exclude(attempt=1, claim=1).exists()
