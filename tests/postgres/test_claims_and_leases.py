"""A claim is a fence: only who holds the newest one changes the row, and it ends when its time is up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Sum
from pytest_django import DjangoAssertNumQueries

from tests.builders import (
    LEASE,
    WORKER,
    a_job,
    a_worker,
    an_ending,
    at_once,
    claim,
    held,
    presence,
    reloaded,
    settle,
    some_jobs,
    sql,
    states,
)
from ultimate_jobs.core.records import Tally
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import Counter, Job as JobRow, Worker

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


def counted(name: str) -> dict[str, Any]:
    fields = ("done", "retried", "failed", "dead", "duration_ms")
    return Counter.objects.filter(name=name).aggregate(**{field: Sum(field) for field in fields})


def beat(*rows: JobRow, worker: str = WORKER, lease: timedelta = LEASE) -> list[object]:
    lost = get_driver().queue.heartbeat(presence(worker), [held(row) for row in rows], lease)
    return [one.claim.id for one in lost]


# Settling


@pytest.mark.parametrize(
    ("state", "words", "expected"),
    [
        (JobState.DONE, {"result": '{"a": 1}'}, {"result": {"a": 1}, "last_error": None}),
        (JobState.DEAD, {"error": "boom"}, {"last_error": "boom", "result": None}),
        (JobState.FAILED, {"error": "boom"}, {"last_error": "boom", "result": None}),
    ],
)
def test_an_ending_is_written_and_the_claim_let_go(
    state: JobState, words: dict[str, Any], expected: dict[str, Any]
) -> None:
    row = a_job(JobState.RUNNING)

    assert settle(an_ending(row, state, **words)) == {(row.id, 1)}

    stored = reloaded(row)
    assert (stored.state, stored.attempt, stored.claim) == (state, 1, 1)
    assert (stored.claimed_by, stored.visible_at) == (None, None)
    assert {name: getattr(stored, name) for name in expected} == expected


def test_a_retry_waits_by_the_databases_clock() -> None:
    row = a_job(JobState.RUNNING)
    ((before,),) = sql("SELECT clock_timestamp()")

    settle(an_ending(row, JobState.READY, wait=HOUR, error="boom", tally=Tally(retried=1)))

    ((after,),) = sql("SELECT clock_timestamp()")
    stored = reloaded(row)
    assert (stored.state, stored.attempt, stored.last_error) == ("ready", 1, "boom")
    assert before <= stored.run_at - HOUR <= after


def test_an_uncounted_ending_gives_the_attempt_back_and_keeps_the_last_error() -> None:
    row = a_job(JobState.RUNNING, attempt=2, last_error="the attempt before")

    settle(an_ending(row, JobState.READY, counted=False))

    stored = reloaded(row)
    assert (stored.state, stored.attempt) == ("ready", 1)
    assert stored.last_error == "the attempt before"
    assert counted(row.name)["done"] is None


def test_an_attempt_is_never_given_back_below_zero() -> None:
    row = a_job(JobState.RUNNING, attempt=0)

    settle(an_ending(row, JobState.READY, counted=False))

    assert reloaded(row).attempt == 0


def test_a_stored_null_is_a_result() -> None:
    row = a_job(JobState.RUNNING, result={"from": "before"})

    settle(an_ending(row, result="null"))

    assert sql("SELECT result::text FROM x_jobs") == [("null",)]


def test_the_last_progress_is_written_with_the_ending() -> None:
    row = a_job(JobState.RUNNING, progress={"done": 1})
    settle(an_ending(row, progress='{"done": 2}'))
    assert reloaded(row).progress == {"done": 2}

    other = a_job(JobState.RUNNING, progress={"done": 1})
    settle(an_ending(other))
    assert reloaded(other).progress == {"done": 1}


def test_a_group_of_endings_and_their_counts_are_one_statement(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    done = some_jobs(30, JobState.RUNNING, name="tests.a")
    dead = some_jobs(5, JobState.RUNNING, name="tests.b")
    retried = a_job(JobState.RUNNING, name="tests.b")
    endings = [
        *(an_ending(row, seconds=0.25) for row in done),
        *(an_ending(row, JobState.DEAD, error="x") for row in dead),
        an_ending(retried, JobState.READY, error="x", tally=Tally(retried=1)),
    ]

    with django_assert_num_queries(1):
        stood = settle(*endings)

    assert len(stood) == 36
    assert states() == {"dead": 5, "done": 30, "ready": 1}
    assert counted("tests.a") == {
        "done": 30,
        "retried": 0,
        "failed": 0,
        "dead": 0,
        "duration_ms": 7_500,
    }
    assert counted("tests.b") == {
        "done": 0,
        "retried": 1,
        "failed": 0,
        "dead": 5,
        "duration_ms": 0,
    }


def test_counters_are_grouped_by_the_minute_and_the_worker() -> None:
    for worker in ("w-1", "w-2", "w-1"):
        settle(an_ending(a_job(JobState.RUNNING, claimed_by=worker)), worker=worker)

    by_shard = dict(Counter.objects.values_list("shard").annotate(Sum("done")).order_by())
    assert sorted(by_shard.values()) == [1, 2]
    assert all(0 <= shard < 16 for shard in by_shard)
    buckets = Counter.objects.values_list("bucket", flat=True)
    assert {(bucket.second, bucket.microsecond) for bucket in buckets} == {(0, 0)}


@pytest.mark.slow
def test_counters_agree_with_the_rows_after_a_crowd_has_settled() -> None:
    rows = some_jobs(200, JobState.RUNNING)

    def settler(part: list[JobRow]) -> int:
        return sum(len(settle(an_ending(row), an_ending(row, claim=9))) for row in part)

    stood = at_once(*(lambda n=n: settler(rows[n::4] + rows[n + 1 :: 4]) for n in range(4)))

    assert sum(stood) == 200
    assert counted("tests.ping")["done"] == 200 == JobRow.objects.filter(state="done").count()


# Fences


def _settle(row: JobRow, claim: int, worker: str) -> object:
    return settle(an_ending(row, claim=claim, result='"late"'), worker=worker)


def _beat(row: JobRow, claim: int, worker: str) -> object:
    return not get_driver().queue.heartbeat(presence(worker), [held(row, claim=claim)], HOUR)


def _note(row: JobRow, claim: int, worker: str) -> object:
    get_driver().queue.record_progress(worker, [(held(row, claim=claim), '{"late": 1}')])
    return None


def _disown(row: JobRow, claim: int, worker: str) -> object:
    get_driver().queue.disown(worker, [held(row, claim=claim)])
    return None


every_write = pytest.mark.parametrize("write", [_settle, _beat, _note, _disown])


@every_write
@pytest.mark.parametrize(
    ("claim_number", "worker"),
    [(1, WORKER), (3, WORKER), (2, "another")],
    ids=["an older claim", "a claim not given yet", "another worker"],
)
def test_only_the_claim_that_stands_can_change_the_row(
    write: Callable[[JobRow, int, str], object], claim_number: int, worker: str
) -> None:
    row = a_job(JobState.RUNNING, claim=2)

    assert not write(row, claim_number, worker)

    assert _columns(row) == _columns(reloaded(row))
    assert not Counter.objects.exists()


@every_write
@pytest.mark.parametrize("state", [JobState.READY, JobState.DONE, JobState.CANCELLED])
def test_a_row_that_no_longer_runs_is_not_changed_by_its_last_claim(
    write: Callable[[JobRow, int, str], object], state: JobState
) -> None:
    row = a_job(state, claim=1, attempt=1, claimed_by=WORKER)
    JobRow.objects.filter(id=row.id).update(claimed_by=WORKER)
    row.refresh_from_db()

    assert not write(row, 1, WORKER)
    assert _columns(row) == _columns(reloaded(row))


def _columns(row: JobRow) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.fields}


def test_a_zombie_cannot_touch_the_run_that_replaced_its_own() -> None:
    row = a_job(JobState.RUNNING, visible_for=-SECOND)
    (second,) = claim(worker="w-2").jobs

    assert settle(an_ending(row, result='"zombie"')) == set()
    assert beat(row) == [row.id]
    get_driver().queue.record_progress(WORKER, [(held(row), '"zombie"')])

    stored = reloaded(row)
    assert (stored.state, stored.claim, stored.claimed_by) == ("running", 2, "w-2")
    assert (stored.result, stored.progress) == (None, None)
    assert settle(an_ending(second, result='"second"'), worker="w-2") == {(row.id, 2)}
    assert counted(row.name)["done"] == 1


def test_a_zombie_of_the_same_name_is_told_apart_by_its_claim_number() -> None:
    row = a_job(JobState.RUNNING, visible_for=-SECOND)
    (second,) = claim(worker=WORKER).jobs

    assert settle(an_ending(row)) == set()
    assert beat(row) == [row.id]
    assert settle(an_ending(second)) == {(row.id, 2)}


def test_of_two_endings_for_one_claim_only_one_stands() -> None:
    row = a_job(JobState.RUNNING)

    stood = at_once(
        lambda: settle(an_ending(row, result="1")),
        lambda: settle(an_ending(row, JobState.DEAD, error="x")),
    )

    assert sorted(len(one) for one in stood) == [0, 1]
    totals = counted(row.name)
    assert totals["done"] + totals["dead"] == 1


# Leases


def test_a_lapsed_claim_is_taken_by_the_next_worker() -> None:
    row = a_job(JobState.RUNNING, visible_for=-SECOND)

    (taken,) = claim(worker="w-2").jobs

    assert (taken.id, taken.claim, taken.attempt) == (row.id, 2, 2)


def test_a_claim_whose_time_is_not_up_is_left_alone_though_nobody_vouches_for_it() -> None:
    a_job(JobState.RUNNING, visible_for=HOUR)

    assert claim(worker="w-2").jobs == []


def test_a_worker_with_signs_of_life_keeps_its_claims_though_their_time_is_up() -> None:
    rows = some_jobs(3, JobState.RUNNING, visible_for=-HOUR)
    a_worker(alive_for=LEASE)

    assert claim(worker="w-2").jobs == []
    Worker.objects.update(expires_at=rows[0].created_at - HOUR)
    assert len(claim(worker="w-2").jobs) == 3


def test_with_every_sign_of_life_deleted_lapsed_work_is_still_delivered_again() -> None:
    rows = some_jobs(3, JobState.RUNNING, visible_for=-SECOND)
    a_worker()
    Worker.objects.all().delete()

    assert {job.id for job in claim(worker="w-2").jobs} == {row.id for row in rows}


def test_one_sign_of_life_covers_every_claim_in_one_statement_and_rewrites_no_job(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    rows = some_jobs(20, JobState.RUNNING, visible_for=-SECOND)
    versions = "SELECT array_agg(xmin::text ORDER BY id) FROM x_jobs"
    before = sql(versions)

    with django_assert_num_queries(1):
        assert beat(*rows) == []

    assert sql(versions) == before
    assert claim(worker="w-2").jobs == []
    stored = Worker.objects.get()
    assert stored.expires_at - stored.beat_at == LEASE


def test_a_sign_of_life_lets_go_of_claims_it_does_not_name_once_their_time_is_up() -> None:
    named, unnamed = some_jobs(2, JobState.RUNNING, visible_for=-SECOND)
    young = a_job(JobState.RUNNING, visible_for=HOUR)
    older = a_job(JobState.RUNNING, visible_for=-SECOND, claimed_by="another")
    a_worker("another")

    assert beat(named) == []

    assert [job.id for job in claim(worker="w-2").jobs] == [unnamed.id]
    assert reloaded(named).claimed_by == reloaded(young).claimed_by == WORKER
    assert reloaded(older).claimed_by == "another"


def test_a_sign_of_life_that_names_an_older_claim_does_not_vouch_for_the_newer() -> None:
    row = a_job(JobState.RUNNING, claim=2, visible_for=-SECOND)

    assert get_driver().queue.heartbeat(presence(), [held(row, claim=1)], LEASE)

    assert [job.id for job in claim(worker="w-2").jobs] == [row.id]


def test_a_sign_of_life_renews_the_row_of_the_worker() -> None:
    row = a_job(JobState.RUNNING)
    a_worker(alive_for=-HOUR)

    beat(row)

    assert Worker.objects.get().expires_at > row.created_at


def test_a_sign_of_life_names_the_claims_that_are_gone() -> None:
    kept, settled, retaken, removed = some_jobs(4, JobState.RUNNING)
    settle(an_ending(settled))
    JobRow.objects.filter(id=retaken.id).update(claim=7)
    JobRow.objects.filter(id=removed.id).delete()

    assert set(beat(kept, settled, retaken, removed)) == {settled.id, retaken.id, removed.id}


def test_a_farewell_lets_the_claims_left_behind_lapse_by_their_own_time() -> None:
    a_job(JobState.RUNNING, visible_for=-SECOND)
    waiting = a_job(JobState.RUNNING, visible_for=HOUR)
    a_worker()

    get_driver().queue.farewell(WORKER)

    assert not Worker.objects.exists()
    assert len(claim(worker="w-2").jobs) == 1
    assert reloaded(waiting).claimed_by == WORKER


def test_a_disowned_claim_lapses_although_its_worker_lives_on() -> None:
    row, kept = some_jobs(2, JobState.RUNNING, visible_for=-SECOND)
    a_worker()

    get_driver().queue.disown(WORKER, [held(row)])

    assert [job.id for job in claim(worker="w-2").jobs] == [row.id]
    assert settle(an_ending(row)) == set()
    assert settle(an_ending(kept)) == {(kept.id, 1)}


def test_rows_of_workers_that_ended_without_a_farewell_are_forgotten_after_a_day() -> None:
    a_worker("old", alive_for=timedelta(hours=-25))
    a_worker("recent", alive_for=timedelta(hours=-23))

    beat()

    assert set(Worker.objects.values_list("id", flat=True)) == {"recent", WORKER}


def test_a_claim_without_a_look_at_the_dead_leaves_lapsed_rows() -> None:
    a_job(JobState.RUNNING, visible_for=-SECOND)
    due = a_job()

    assert [job.id for job in claim(worker="w-2", reap=False).jobs] == [due.id]


# Burial


def test_a_lapsed_last_attempt_is_buried_and_counted_in_the_claim(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    spent = a_job(JobState.RUNNING, visible_for=-SECOND, attempt=3, max_attempts=3, name="tests.a")
    again = a_job(JobState.RUNNING, visible_for=-SECOND, attempt=2, max_attempts=3, name="tests.a")

    with django_assert_num_queries(1):
        claims = claim("tests.a", worker="w-2")

    assert [job.id for job in claims.jobs] == [again.id]
    (buried,) = claims.buried
    assert (buried.id, buried.state, buried.attempt) == (spent.id, JobState.DEAD, 3)
    stored = reloaded(spent)
    assert (stored.state, stored.attempt) == ("dead", 3)
    assert (stored.claimed_by, stored.visible_at) == (None, None)
    assert stored.last_error == buried.last_error
    assert stored.last_error.startswith("X_JOB_LEASE_LOST")
    assert counted("tests.a") == {
        "done": 0,
        "retried": 0,
        "failed": 0,
        "dead": 1,
        "duration_ms": 0,
    }


def test_a_job_that_keeps_no_dead_letters_is_buried_as_failed() -> None:
    spent = a_job(JobState.RUNNING, visible_for=-SECOND, attempt=3)

    (buried,) = claim(worker="w-2", undead=[spent.name]).buried

    assert (buried.state, reloaded(spent).state) == (JobState.FAILED, "failed")
    assert (counted(spent.name)["failed"], counted(spent.name)["dead"]) == (1, 0)


def test_a_burial_takes_no_room_from_due_work() -> None:
    some_jobs(5, JobState.RUNNING, visible_for=-SECOND, attempt=3)
    some_jobs(3)

    claims = claim(worker="w-2", room=3)

    assert (len(claims.jobs), len(claims.buried)) == (3, 5)


def test_a_buried_job_frees_its_key() -> None:
    spent = a_job(JobState.RUNNING, visible_for=-SECOND, attempt=3)
    claim(worker="w-2")

    again = a_job(name=spent.name, idempotency_key=spent.idempotency_key)

    assert {reloaded(spent).state, again.state} == {"dead", "ready"}


def test_a_worker_that_dies_at_every_attempt_ends_the_job_after_as_many_claims() -> None:
    row = a_job(max_attempts=4)
    attempts = []

    while jobs := claim(worker="w", lease=timedelta(microseconds=1)).jobs:
        attempts += [job.attempt for job in jobs]

    assert attempts == [1, 2, 3, 4]
    assert reloaded(row).state == "dead"


def test_two_workers_never_bury_one_job_twice() -> None:
    some_jobs(40, JobState.RUNNING, visible_for=-SECOND, attempt=3)

    buried = at_once(*[lambda: len(claim("tests.ping", worker="w").buried)] * 4)

    assert sum(buried) == 40
    assert counted("tests.ping")["dead"] == 40
