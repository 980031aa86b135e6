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
from ultimate_jobs.core.states import TERMINAL, WAITING, JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import ClaimQueuesEmpty
from ultimate_jobs.models import Job as JobRow, Pause

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
def test_every_waiting_state_is_claimed_once_it_is_due(state: JobState) -> None:
    row = a_job(state, due_in=-SECOND)

    assert [job.id for job in claim().jobs] == [row.id]


@pytest.mark.parametrize("state", sorted(WAITING))
def test_nothing_is_claimed_before_its_instant(state: JobState) -> None:
    a_job(state, due_in=HOUR)

    assert claim().jobs == []


@pytest.mark.parametrize("state", [*sorted(TERMINAL), JobState.RUNNING])
def test_what_runs_or_has_ended_is_not_claimed(state: JobState) -> None:
    a_job(state, due_in=-HOUR)

    assert claim().jobs == []


# Order


def test_a_claim_goes_by_priority_then_instant_then_id() -> None:
    low = a_job(priority=-1, due_in=-3 * HOUR)
    late = a_job(due_in=-HOUR)
    early = a_job(due_in=-2 * HOUR)
    urgent = a_job(priority=5, due_in=-SECOND)
    not_yet = a_job(priority=9, due_in=HOUR)
    twin = a_job(run_at=early.run_at)

    assert [job.id for job in claim().jobs] == [urgent.id, early.id, twin.id, late.id, low.id]
    assert reloaded(not_yet).state == "ready"


def test_a_small_claim_takes_the_first_in_that_order() -> None:
    rows = [a_job(priority=p, due_in=-n * SECOND) for n in range(3) for p in (0, 7, 3)]
    order = sorted(rows, key=lambda row: (-row.priority, row.run_at, row.id))

    taken = [job.id for _ in range(9) for job in claim(room=1).jobs]

    assert taken == [row.id for row in order]


def test_urgent_rows_that_are_not_due_do_not_hide_a_due_one() -> None:
    some_jobs(50, priority=9, due_in=HOUR)
    some_jobs(50, priority=1, due_in=HOUR)
    due = a_job(priority=-9)

    assert [job.id for job in claim(room=1).jobs] == [due.id]


# What is passed over


def test_names_this_worker_does_not_know_are_left_for_others() -> None:
    a_job(name="tests.unknown", priority=9)
    known = a_job(name="tests.known")

    assert [job.id for job in claim("tests.known").jobs] == [known.id]
    assert states() == {"ready": 1, "running": 1}


def test_a_worker_that_knows_nothing_takes_nothing() -> None:
    a_job()

    assert claim("tests.other").jobs == []


def test_queues_that_are_not_served_are_left_for_others() -> None:
    a_job(queue="mail", priority=9)
    here = a_job(queue="default")

    assert [job.id for job in claim(queues=["default"]).jobs] == [here.id]


def test_a_paused_queue_gives_nothing_until_it_is_resumed() -> None:
    row = a_job(queue="mail")
    other = a_job(queue="default")
    pause = Pause.objects.create(kind=Pause.Kind.QUEUE, name="mail")

    assert [job.id for job in claim(queues=["mail", "default"]).jobs] == [other.id]
    pause.delete()
    assert [job.id for job in claim(queues=["mail", "default"]).jobs] == [row.id]


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


def test_a_claim_without_a_queue_is_refused() -> None:
    with pytest.raises(ClaimQueuesEmpty):
        claim("tests.ping", queues=[])


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
