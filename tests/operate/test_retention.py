"""What a purge deletes and what it keeps; what a fold moves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Sum
from django.db.models.functions import Now
from pytest_django import Settings

from tests.builders import PATIENCE, a_job, a_staged_row, at_once, second_connection, work_off
from ultimate_jobs import jobs
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.states import LIVE, TERMINAL, JobState
from ultimate_jobs.models import Counter, Event, Job as JobRow, JobStep, OutboxEntry
from ultimate_jobs.operate import retention

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


def ended(state: JobState, ago: timedelta, **columns: Any) -> JobRow:
    return a_job(state, updated_at=NOW - ago, **columns)


def a_step(of: JobRow, name: str = "charge") -> JobStep:
    return JobStep.objects.create(
        run_id=of.run_id, name=name, job_id=of.id, position=1, status="completed"
    )


def a_counter(span: int, ago: timedelta, shard: int = 0, **counts: int) -> Counter:
    return Counter.objects.create(
        span=span, bucket=NOW - ago, name="tests.ping", shard=shard, **counts
    )


def kept() -> set[object]:
    return set(JobRow.objects.values_list("id", flat=True))


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_finished_jobs_go_after_the_retention_of_their_state(state: JobState) -> None:
    days = 14 if state is JobState.DONE else 90
    ended(state, days * DAY + SECOND)
    young = ended(state, days * DAY)

    gone = retention.purge(NOW)

    assert gone[state.value] == 1
    assert kept() == {young.id}


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_live_job_is_never_deleted(state: JobState) -> None:
    row = ended(state, 3_000 * DAY)
    step = a_step(row)

    retention.purge(NOW)

    assert kept() == {row.id}
    assert JobStep.objects.get().name == step.name


def test_the_settings_say_how_long(settings: Settings) -> None:
    settings.ULTIMATE_JOBS = {"DONE_RETENTION": "1h", "DEAD_RETENTION": "2h"}
    for state in (JobState.DONE, JobState.DEAD):
        ended(state, timedelta(minutes=150))
    young = ended(JobState.DEAD, timedelta(minutes=90))

    retention.purge(NOW)

    assert kept() == {young.id}


def test_the_steps_of_a_job_go_with_it_and_no_others() -> None:
    old, young = ended(JobState.DONE, 20 * DAY), ended(JobState.DONE, DAY)
    a_step(old)
    a_step(old, "refund")
    a_step(young)

    retention.purge(NOW)

    assert [step.job_id for step in JobStep.objects.all()] == [young.id]


def test_expired_events_and_old_receipts_go() -> None:
    for ago in (-SECOND, SECOND):
        Event.objects.create(
            id=new_id(), name="e", payload={}, xid=1, published_at=NOW - DAY, expires_at=NOW - ago
        )
    for n, published in enumerate((NOW - 15 * DAY, NOW - DAY, None)):
        a_staged_row(idempotency_key=f"k-{n}", staged_at=NOW - 400 * DAY, published_at=published)

    gone = retention.purge(NOW)

    assert (gone["events"], gone["receipts"]) == (1, 1)
    assert Event.objects.get().expires_at > NOW
    assert set(OutboxEntry.objects.values_list("idempotency_key", flat=True)) == {"k-1", "k-2"}


def test_counters_past_the_last_tier_go() -> None:
    a_counter(60, 30 * DAY + SECOND)
    young = a_counter(60, 30 * DAY)

    assert retention.purge(NOW)["counters"] == 1
    assert list(Counter.objects.all()) == [young]


def test_a_purge_goes_on_until_nothing_is_left_and_may_be_stopped_between_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "PURGE_BATCH", 2)
    for _ in range(5):
        ended(JobState.DONE, 20 * DAY)

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        retention.purge(NOW, stop)
    assert len(kept()) == 3

    assert retention.purge(NOW)["done"] == 3
    assert kept() == set()


def test_a_job_that_is_being_retried_is_passed_over() -> None:
    row = ended(JobState.DEAD, 100 * DAY)

    with transaction.atomic():
        JobRow.objects.select_for_update().get(id=row.id)
        gone = second_connection(lambda: retention.purge(NOW)).result(PATIENCE)

    assert gone["dead"] == 0
    assert kept() == {row.id}


@pytest.mark.parametrize(
    ("span", "into", "keep"), [(1, 5, timedelta(hours=24)), (5, 60, timedelta(days=7))]
)
def test_counters_past_their_tier_are_folded_into_the_next(
    span: int, into: int, keep: timedelta
) -> None:
    bucket = timedelta(minutes=into)
    for minutes in range(0, into, span):
        for shard in (0, 3):
            a_counter(
                span, keep + bucket - timedelta(minutes=minutes), shard, done=1, duration_ms=10
            )
    young = a_counter(span, keep, done=7)

    folded = retention.fold(NOW)

    many = 2 * into // span
    assert folded == many
    row = Counter.objects.get(span=into)
    assert (row.bucket, row.shard) == (NOW - keep - bucket, 0)
    assert (row.done, row.duration_ms) == (many, 10 * many)
    assert Counter.objects.exclude(span=into).get() == young


def test_a_bucket_is_folded_only_when_it_is_whole() -> None:
    """Its later minutes are still within their tier: a reader would see half of it."""
    a_counter(1, timedelta(hours=24, minutes=1), done=1)
    later = NOW + timedelta(minutes=2)

    assert retention.fold(later) == 1
    a_counter(1, timedelta(hours=23, minutes=59), done=1)
    assert retention.fold(later) == 0


def test_folding_again_and_at_once_counts_nothing_twice() -> None:
    for minutes in range(500):
        a_counter(1, timedelta(days=2, minutes=minutes), minutes % 16, done=1, failed=2)

    folds: list[Callable[[], int]] = [lambda: retention.fold(NOW)] * 4
    at_once(*folds)
    retention.fold(NOW)

    sums = Counter.objects.aggregate(done=Sum("done"), failed=Sum("failed"))
    assert sums == {"done": 500, "failed": 1_000}
    assert not Counter.objects.filter(span=1).exists()


def test_the_purge_and_the_fold_run_as_jobs() -> None:
    old = a_job(JobState.DONE, updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    Counter.objects.create(bucket=Now() - 2 * DAY, name="tests.ping", done=1)
    for handle in (jobs.hourly_purge, jobs.regular_fold):
        handle.enqueue()

    work_off()

    assert old.id not in kept()
    purged = JobRow.objects.get(name="ultimate_jobs.purge")
    folded = JobRow.objects.get(name="ultimate_jobs.fold_counters")
    assert (purged.state, folded.state, folded.result) == ("done", "done", 1)
    assert (purged.result or {})["done"] == 1
    steps = JobStep.objects.order_by("position").values_list("name", flat=True)
    assert list(steps) == ["clock", *retention.purge()]
