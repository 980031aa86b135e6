"""One job in plain values: whatever clock the project keeps, and whatever moves meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connections, transaction  # noqa: TID251 - to come between two statements
from django.utils import timezone
from pytest_django import Settings

from testproject.shop.models import Order
from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    a_job,
    relay_all,
    second_connection,
    sql,
)
from ultimate_jobs import Concurrency, Retry
from ultimate_jobs.core.states import JobState
from ultimate_jobs.errors import JobUnknown
from ultimate_jobs.models import Job as JobRow, OutboxEntry
from ultimate_jobs.operate.inspection import Filter, list_jobs, show_job
from ultimate_jobs.operate.overview import counts, outbox_backlog, queue_stats

pytestmark = pytest.mark.django_db(transaction=True)

INSTANTS = ["run_at", "created_at", "updated_at", "visible_at"]
NOON = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)


# Instants


@pytest.fixture
def a_claimed_job() -> JobRow:
    """Write a job all of whose instants are known."""
    row = a_job(JobState.RUNNING)
    JobRow.objects.filter(id=row.id).update(**dict.fromkeys(INSTANTS, NOON))
    return row


def instants(row: JobRow) -> set[str]:
    shown, (listed,) = show_job(str(row.id)), list_jobs(Filter())
    return {shown[field] for field in INSTANTS} | {listed[field] for field in INSTANTS[:3]}


def test_instants_are_shown_in_utc_to_the_microsecond(a_claimed_job: JobRow) -> None:
    assert instants(a_claimed_job) == {"2026-07-01T12:00:00.123456Z"}


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_a_project_in_another_zone_shows_the_same_instants(
    a_claimed_job: JobRow, settings: Settings, zone: str
) -> None:
    settings.TIME_ZONE = zone

    assert instants(a_claimed_job) == {"2026-07-01T12:00:00.123456Z"}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_a_project_that_keeps_local_time_shows_the_same_instants(
    a_claimed_job: JobRow, settings: Settings, zone: str
) -> None:
    settings.TIME_ZONE = zone
    settings.USE_TZ = False

    assert timezone.is_naive(JobRow.objects.get().run_at)
    assert instants(a_claimed_job) == {"2026-07-01T12:00:00.123456Z"}


def test_the_zone_of_whoever_looks_changes_no_instant(
    a_claimed_job: JobRow, settings: Settings
) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Europe/Berlin"

    with timezone.override("Asia/Tokyo"):
        assert instants(a_claimed_job) == {"2026-07-01T12:00:00.123456Z"}


def test_a_staged_row_of_a_project_that_keeps_local_time_is_shown_in_utc(
    declare: Declarations, settings: Settings
) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "America/New_York"
    with transaction.atomic():
        staged = declare().enqueue(Ping("k"), delay="1h")
    sql("UPDATE x_outbox SET run_at = %s, staged_at = %s", [NOON, NOON - timedelta(hours=1)])

    shown = show_job(str(staged.id))

    assert shown["state"] == "staged"
    assert shown["run_at"] == "2026-07-01T12:00:00.123456Z"
    assert shown["created_at"] == shown["updated_at"] == "2026-07-01T11:00:00.123456Z"


# What a job is about


def test_the_object_a_job_is_about_is_named_staged_and_queued(declare: Declarations) -> None:
    order = Order.objects.create(reference="o-1", amount=Decimal("9.90"))
    with transaction.atomic():
        queued = declare().enqueue(Ping("k"), related=order)

    about = {"type": "shop.order", "id": str(order.pk)}
    assert show_job(str(queued.id))["related"] == about
    relay_all()
    assert show_job(str(queued.id))["related"] == about


def test_the_object_may_be_gone_and_its_kind_too(declare: Declarations) -> None:
    order = Order.objects.create(reference="o-1", amount=Decimal("9.90"))
    queued = declare().enqueue(Ping("k"), related=order)
    about = {"type": "shop.order", "id": str(order.pk)}

    order.delete()
    assert show_job(str(queued.id))["related"] == about
    JobRow.objects.update(related_type_id=999_999)
    assert show_job(str(queued.id))["related"] == {"type": "unknown", "id": about["id"]}


def test_a_job_about_nothing_says_so(declare: Declarations) -> None:
    assert show_job(str(declare().enqueue(Ping("k")).id))["related"] is None


# What its declaration adds


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry(attempts=1), []),
        (Retry(attempts=4, delay="2s", backoff="fixed"), [2, 2, 2]),
        (Retry(attempts=4, delay="2s", backoff="linear"), [2, 4, 6]),
        (Retry(attempts=5, delay="2s", max_delay="5s"), [2, 4, 5, 5]),
    ],
    ids=["once", "fixed", "linear", "exponential"],
)
def test_the_waits_of_a_job_that_always_fails_are_listed_without_jitter(
    declare: Declarations, retry: Retry, delays: list[float]
) -> None:
    queued = declare(retry=retry).enqueue(Ping("k"))

    assert show_job(str(queued.id))["retry_delays"] == delays


def test_the_attempts_a_row_was_enqueued_with_count(declare: Declarations) -> None:
    queued = declare(retry=Retry(attempts=2, delay="1s")).enqueue(Ping("k"))
    JobRow.objects.update(max_attempts=4)

    assert show_job(str(queued.id))["retry_delays"] == [1, 2, 4]


def _raises(_: Ping) -> str:
    raise KeyError("the function of the application is broken")


@pytest.mark.parametrize(
    ("key", "shown"),
    [(lambda i: f"org:{i.org}", "org:acme"), (lambda i: "", None), (_raises, None)],
    ids=["a key", "no key", "a function that raises"],
)
def test_the_key_of_a_keyed_cap_is_shown_if_it_can_be_computed(
    declare: Declarations, key: Callable[[Ping], str], shown: str | None
) -> None:
    capped = declare(concurrency=Concurrency(key=lambda i: i.key, limit=1))
    row = a_job(name=capped.name, input={"key": "k", "org": "acme", "load": None})
    object.__setattr__(capped.spec, "concurrency_key", key)

    assert show_job(str(row.id))["concurrency_key"] == shown


def test_a_plain_cap_has_no_key(declare: Declarations) -> None:
    row = a_job(name=declare(concurrency=2).name, input={"key": "k"})

    assert show_job(str(row.id))["concurrency_key"] is None


def test_everything_shown_has_a_json_form(declare: Declarations) -> None:
    queued = declare().enqueue(Ping("k", load=[1.5, None, {"a": True}]), related=a_job())

    for job in (show_job(str(queued.id)), *list_jobs(Filter())):
        assert json.loads(json.dumps(job, allow_nan=False)) == job


# While others are at work


@contextmanager
def before_statement(number: int, act: Callable[[], object]) -> Iterator[None]:
    """Let ``act`` happen before the n-th statement of this connection in the block."""
    ran = 0

    def watch(execute: Callable[..., Any], *args: Any) -> Any:
        nonlocal ran
        ran += 1
        if ran == number:
            act()
        return execute(*args)

    with connections["default"].execute_wrapper(watch):
        yield


@pytest.mark.parametrize("number", [1, 2])
def test_a_row_that_is_published_while_one_looks_is_found(
    declare: Declarations, number: int
) -> None:
    with transaction.atomic():
        staged = declare().enqueue(Ping("k"))

    with before_statement(number, lambda: second_connection(relay_all).result(PATIENCE)):
        shown = show_job(str(staged.id))

    assert shown["id"] == str(staged.id)
    assert shown["state"] in {"staged", "ready"}
    assert not OutboxEntry.objects.exists() or number == 2


def test_a_job_that_is_removed_while_one_looks_is_unknown() -> None:
    row = a_job()

    with (
        before_statement(
            1, lambda: second_connection(JobRow.objects.all().delete).result(PATIENCE)
        ),
        pytest.raises(JobUnknown),
    ):
        show_job(str(row.id))


# Counts


def test_only_what_waits_and_runs_is_counted(declare: Declarations) -> None:
    for state in JobState:
        a_job(state)
    a_job(JobState.DELAYED, due_in=timedelta(hours=1))
    a_job(JobState.READY, due_in=timedelta(hours=1))
    with transaction.atomic():
        declare().enqueue_many([Ping("a"), Ping("b")])

    assert counts(queue_stats(), outbox_backlog()) == {
        "staged": 2,
        "ready": 2,
        "delayed": 2,
        "standing_by": 0,
        "running": 1,
        "suspended": 1,
    }


def test_a_staged_row_that_was_deduplicated_is_no_longer_counted(declare: Declarations) -> None:
    ping = declare()
    with transaction.atomic():
        ping.enqueue(Ping("k"))
    a_job(name=ping.name, idempotency_key="k")
    relay_all()

    assert OutboxEntry.objects.count() == 1
    assert counts(queue_stats(), outbox_backlog())["staged"] == 0
