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


DONE_ONCE = Tally(done=1)


def test_a_job_is_done_in_the_same_way_whatever_it_is_written_with() -> None:
    before: dict[str, Any] = {"last_error": "the time before", "input": {}}
    plain = [a_job(JobState.RUNNING, name="plain", **before) for _ in range(2)]
    mixed = [a_job(JobState.RUNNING, name="mixed", **before) for _ in range(2)]
    others = [a_job(JobState.RUNNING, name="other") for _ in range(2)]
    words: dict[str, Any] = {"result": '{"a": [1, null]}', "tally": DONE_ONCE, "seconds": 0.25}

    for one, two, other in zip(plain, mixed, others, strict=True):
        settle(an_ending(one, JobState.DONE, **words))
        settle(an_ending(two, JobState.DONE, **words), an_ending(other, JobState.DEAD))

    same = (
        "state",
        "attempt",
        "claim",
        "claimed_by",
        "visible_at",
        "last_error",
        "result",
        "progress",
    )
    written = list(JobRow.objects.filter(name__in=("plain", "mixed")).values(*same))
    assert written == [written[0]] * 4
    assert written[0]["result"] == {"a": [1, None]}
    assert counted("plain") == counted("mixed")
    assert (counted("plain")["done"], counted("plain")["duration_ms"]) == (2, 500)


def test_of_a_group_that_is_done_only_claims_that_stand_are_written_and_counted() -> None:
    rows = [a_job(JobState.RUNNING, name="n") for _ in range(4)]
    _, other, later, gone = rows
    JobRow.objects.filter(id=other.id).update(claimed_by="another")
    JobRow.objects.filter(id=later.id).update(claim=2)
    JobRow.objects.filter(id=gone.id).update(state="cancelled", claimed_by=None)
    endings = [
        an_ending(row, JobState.DONE, result=str(number), tally=DONE_ONCE)
        for number, row in enumerate(rows)
    ]

    assert settle(*endings) == {(rows[0].id, 1)}

    assert states() == {"done": 1, "running": 2, "cancelled": 1}
    assert reloaded(rows[0]).result == 0
    assert counted("n")["done"] == 1


def test_a_row_that_stays_in_place_keeps_its_time_and_others_hear_of_it() -> None:
    row = a_job(JobState.RUNNING, attempt=1)
    row.run_at -= HOUR
    row.save()

    settle(an_ending(row, JobState.READY, counted=False, in_place=True))

    stored = reloaded(row)
    assert (stored.state, stored.attempt, stored.run_at) == ("ready", 0, row.run_at)


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


def test_a_sign_of_life_renews_the_row_of_the_worker() -> None:
    row = a_job(JobState.RUNNING)
    a_worker(alive_for=-HOUR)

    beat(row)

    assert Worker.objects.get().expires_at > row.created_at


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


def test_two_workers_never_bury_one_job_twice() -> None:
    some_jobs(40, JobState.RUNNING, visible_for=-SECOND, attempt=3)

    buried = at_once(*[lambda: len(claim("tests.ping", worker="w").buried)] * 4)

    assert sum(buried) == 40
    assert counted("tests.ping")["dead"] == 40
