"""``task``: what it refuses, what it answers, and what an occurrence becomes."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.db import transaction

from tests.builders import Declarations, Ping, rolled_back, staged
from ultimate_jobs import Job, Task, task
from ultimate_jobs.core.cron import Schedule
from ultimate_jobs.definitions.registry import TaskRegistry, tasks
from ultimate_jobs.enqueue.occurrence import prepare_occurrence
from ultimate_jobs.errors import (
    DeclarationInvalid,
    EnqueueBatchTooLarge,
    InputInvalid,
    InvariantError,
    JobDuplicate,
    JobsError,
)
from ultimate_jobs.models import Job as JobRow

OCCURRENCE = datetime(2026, 12, 1, 2, 30, tzinfo=UTC)
MILLISECONDS = 1_796_092_200_000
WHOLE: dict[str, Any] = {"cron": "30 2 * * *", "tz": "UTC", "name": "tests.nightly"}


def nothing(occurrence: datetime) -> list[tuple[Job[Any, Any], Any]]:
    """Enqueue nothing."""
    return []


@contextmanager
def declared(enqueue: Callable[[datetime], Any] = nothing, **options: Any) -> Iterator[Task]:
    """Declare a task that is forgotten at the end of the block."""
    handle: Task = task(**{**WHOLE, "enqueue": enqueue, **options})
    try:
        yield handle
    finally:
        tasks.discard(handle)


def refused(enqueue: Any = nothing, **options: Any) -> JobsError:
    before = tasks.names()
    with pytest.raises(JobsError) as caught:
        declared(enqueue, **options).__enter__()
    assert tasks.names() == before
    return caught.value


# The declaration


def test_a_task_decorates_the_function_of_its_entries(declare: Declarations) -> None:
    ping = declare()

    @task(cron="30 2 * * *", tz="Europe/Berlin", name="tests.decorated")
    def decorated(occurrence: datetime) -> list[tuple[Job[Any, Any], Any]]:
        return [(ping, Ping("a"))]

    try:
        assert isinstance(decorated, Task)
        assert tasks.get("tests.decorated") is decorated
        assert decorated.entries(OCCURRENCE) == [(ping, Ping("a"))]
    finally:
        tasks.discard(decorated)


def test_a_task_is_called_with_the_function_of_its_entries() -> None:
    with declared(lambda occurrence: []) as handle:
        assert tasks.get("tests.nightly") is handle
        assert repr(handle) == "<task tests.nightly>"
        assert (handle.cron, handle.tz) == ("30 2 * * *", "UTC")
        assert (handle.catch_up, handle.max_catch_up) == ("skip", 10)


def test_a_task_is_named_after_its_function() -> None:
    with declared(nothing, name=None) as handle:
        assert handle.name == f"{__name__}.nothing"


def test_a_function_without_a_name_needs_one_for_its_task() -> None:
    anonymous: Any
    for anonymous in (lambda occurrence: [], functools.partial(nothing)):
        error = refused(anonymous, name=None)
        assert isinstance(error, DeclarationInvalid)
        assert "name=" in error.fix


def test_a_handle_cannot_be_changed() -> None:
    with declared() as handle, pytest.raises(dataclasses.FrozenInstanceError):
        handle.name = "another"  # type: ignore[misc]


@pytest.mark.parametrize(
    "options",
    [
        {"cron": "0 0 30 2 *"},
        {"cron": "* * * * * *"},
        {"cron": None},
        {"tz": "Mars/Phobos"},
        {"tz": "+02:00"},
        {"tz": ""},
        {"tz": None},
        {"catch_up": "all"},
        {"catch_up": None},
        {"catch_up": ["skip"]},
        *({"max_catch_up": value} for value in (0, -1, 1.5, 10.0, True, "3", None, 1_001)),
    ],
    ids=repr,
)
def test_a_schedule_that_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    error = refused(**options)

    assert isinstance(error, InvariantError)
    assert error.code == "X_INVARIANT"
    assert "'tests.nightly'" in error.cause
    assert error.fix


def test_a_schedule_that_is_left_out_is_refused() -> None:
    for missing in ("cron", "tz"):
        options = {**WHOLE, "enqueue": nothing}
        del options[missing]
        with pytest.raises(InvariantError):
            task(**options)


async def asynchronous(occurrence: datetime) -> list[tuple[Job[Any, Any], Any]]:
    return []


def of_nothing() -> list[tuple[Job[Any, Any], Any]]:
    return []


def of_two(occurrence: datetime, other: int) -> list[tuple[Job[Any, Any], Any]]:
    return []


@pytest.mark.parametrize("function", [asynchronous, of_nothing, of_two, 7, "nothing", [nothing]])
def test_what_cannot_be_called_with_an_occurrence_is_refused(function: Any) -> None:
    assert isinstance(refused(function), DeclarationInvalid)


@pytest.mark.parametrize("name", ["", "n" * 201, "a\x00b", 7])
def test_a_name_that_cannot_be_stored_is_refused(name: Any) -> None:
    assert isinstance(refused(name=name), DeclarationInvalid)


def test_two_tasks_with_one_name_are_refused_and_the_first_stays() -> None:
    with declared() as first:
        with pytest.raises(JobDuplicate) as caught:
            declared(lambda occurrence: []).__enter__()
        assert tasks.get("tests.nightly") is first

    assert "'tests.nightly'" in caught.value.cause


def test_a_task_and_a_job_may_share_a_name(declare: Declarations) -> None:
    with declared(name=declare(name="tests.both").name) as handle:
        assert tasks.get("tests.both") is handle


def test_a_task_that_is_registered_again_changes_nothing() -> None:
    with declared() as handle:
        before = len(tasks)
        tasks.add(handle)
        assert len(tasks) == before
        TaskRegistry().discard(handle)
        assert tasks.get(handle.name) is handle


# Its entries


def test_entries_are_built_for_the_occurrence_in_utc(declare: Declarations) -> None:
    ping = declare()
    seen: list[datetime] = []

    def entries(occurrence: datetime) -> Iterator[tuple[Job[Any, Any], Any]]:
        seen.append(occurrence)
        yield ping, Ping(occurrence.date().isoformat())
        yield ping, Ping("b")

    with declared(entries) as handle:
        elsewhere = OCCURRENCE.astimezone(timezone(timedelta(hours=-5)))
        assert handle.entries(elsewhere) == [(ping, Ping("2026-12-01")), (ping, Ping("b"))]

    assert seen == [OCCURRENCE]
    assert seen[0].tzinfo is UTC


def test_without_an_occurrence_entries_are_built_for_now() -> None:
    seen: list[datetime] = []

    def entries(occurrence: datetime) -> list[tuple[Job[Any, Any], Any]]:
        seen.append(occurrence)
        return []

    with declared(entries) as handle:
        before = datetime.now(UTC)  # noqa: TID251
        handle.entries()
        assert before <= seen[0] <= datetime.now(UTC)  # noqa: TID251


def test_an_instant_without_a_zone_is_refused() -> None:
    naive: Any
    with declared() as handle:
        for naive in (OCCURRENCE.replace(tzinfo=None), OCCURRENCE.date(), "2026-12-01"):
            for ask in (handle.entries, handle.next_run, handle.enqueue):
                with pytest.raises(InvariantError):
                    ask(naive)


@pytest.mark.parametrize(
    "answer",
    [None, 7, "no entries", [Ping("a")], [("job", Ping("a"))], [()], [nothing], {"a": 1}],
    ids=["None", "number", "text", "inputs", "names", "empty", "function", "mapping"],
)
def test_what_is_no_list_of_entries_is_refused(answer: Any) -> None:
    with (
        declared(lambda occurrence: answer) as handle,
        pytest.raises(InvariantError, match="pairs"),
    ):
        handle.entries(OCCURRENCE)


def test_an_occurrence_has_at_most_as_many_entries_as_a_batch(declare: Declarations) -> None:
    ping = declare()
    with (
        declared(lambda occurrence: [(ping, Ping("a"))] * 10_001) as handle,
        pytest.raises(EnqueueBatchTooLarge),
    ):
        handle.entries(OCCURRENCE)


def test_the_next_run_is_the_first_occurrence_later_than_asked() -> None:
    with declared(tz="Europe/Berlin") as handle:
        assert handle.next_run(OCCURRENCE) == datetime(2026, 12, 2, 1, 30, tzinfo=UTC)
        assert handle.next_run() > datetime.now(UTC)  # noqa: TID251
        assert handle.schedule == Schedule.parse("30 2 * * *", "Europe/Berlin")


def test_a_description_is_plain_values(declare: Declarations) -> None:
    late, early = declare(name="tests.z"), declare(name="tests.a")
    pairs = [(late, Ping("1")), (early, Ping("2")), (late, Ping("3"))]

    with declared(lambda occurrence: pairs, catch_up="run-all", max_catch_up=3) as handle:
        assert json.loads(json.dumps(handle.describe())) == {
            "kind": "task",
            "name": "tests.nightly",
            "cron": "30 2 * * *",
            "tz": "UTC",
            "catch_up": "run-all",
            "max_catch_up": 3,
            "jobs": ["tests.z", "tests.a"],
        }


def test_a_task_whose_entries_cannot_be_built_is_described_without_jobs() -> None:
    def broken(occurrence: datetime) -> list[tuple[Job[Any, Any], Any]]:
        raise ConnectionError

    with declared(broken) as handle:
        assert handle.describe()["jobs"] == []


# Enqueued by hand


@pytest.mark.django_db(transaction=True)
def test_enqueued_by_hand_the_jobs_have_their_plain_keys(declare: Declarations) -> None:
    first, second = declare(), declare()

    with declared(lambda occurrence: [(first, Ping("a")), (second, Ping("b"))]) as handle:
        answers = handle.enqueue()
        again = handle.enqueue(OCCURRENCE)

    rows = {row.id: (row.name, row.idempotency_key) for row in JobRow.objects.all()}
    assert [rows[answer.id] for answer in answers] == [(first.name, "a"), (second.name, "b")]
    assert [(a.id, a.deduped) for a in again] == [(a.id, True) for a in answers]


@pytest.mark.django_db(transaction=True)
def test_enqueued_by_hand_the_jobs_are_part_of_the_transaction(declare: Declarations) -> None:
    ping = declare()

    with declared(lambda occurrence: [(ping, Ping("a"))]) as handle:
        with rolled_back():
            handle.enqueue()
        assert staged() == []
        with transaction.atomic():
            handle.enqueue()
        assert [row.idempotency_key for row in staged(ping.name)] == ["a"]


@pytest.mark.django_db(transaction=True)
def test_enqueued_by_hand_a_wrong_entry_leaves_nothing(declare: Declarations) -> None:
    ping = declare()

    with (
        declared(lambda occurrence: [(ping, Ping("a")), (ping, object())]) as handle,
        pytest.raises(InputInvalid),
    ):
        handle.enqueue()

    assert not JobRow.objects.exists()


# An occurrence


def occurring(*pairs: Any) -> AbstractContextManager[Task]:
    return declared(lambda occurrence: pairs)


@pytest.mark.django_db
def test_an_occurrence_is_a_batch_per_job_with_keys_of_its_own(declare: Declarations) -> None:
    late, early = declare(queue="mail"), declare()

    with occurring((late, Ping("1")), (early, Ping("2")), (late, Ping("3"))) as handle:
        batches = prepare_occurrence(handle, OCCURRENCE)
        later = prepare_occurrence(handle, OCCURRENCE + timedelta(days=1))

    assert [(batch.name, batch.queue) for batch in batches] == [
        (late.name, "mail"),
        (early.name, "default"),
    ]
    prefix = f"tests.nightly:{MILLISECONDS}:"
    assert [[job.idempotency_key for job in batch.jobs] for batch in batches] == [
        [f"{prefix}1", f"{prefix}3"],
        [f"{prefix}2"],
    ]
    assert {(batch.run_at, batch.delay) for batch in batches} == {(OCCURRENCE, None)}
    assert batches[0].max_attempts == 3
    keys = {job.idempotency_key for batch in batches for job in batch.jobs}
    assert keys.isdisjoint(job.idempotency_key for batch in later for job in batch.jobs)


@pytest.mark.django_db
def test_entries_with_one_key_share_a_job_of_the_occurrence(declare: Declarations) -> None:
    ping = declare()

    with occurring((ping, Ping("a")), (ping, Ping("a"))) as handle:
        (batch,) = prepare_occurrence(handle, OCCURRENCE)

    assert len(batch.jobs) == 1


@pytest.mark.django_db
def test_an_occurrence_without_entries_has_no_batch() -> None:
    with declared() as handle:
        assert prepare_occurrence(handle, OCCURRENCE) == []


@pytest.mark.django_db
def test_a_key_that_is_too_long_with_its_prefix_is_refused(declare: Declarations) -> None:
    ping = declare()
    room = 1_000 - len(f"tests.nightly:{MILLISECONDS}:")

    with occurring((ping, Ping("k" * room))) as handle:
        (batch,) = prepare_occurrence(handle, OCCURRENCE)
        assert len(batch.jobs[0].idempotency_key) == 1_000
    with (
        occurring((ping, Ping("k" * (room + 1)))) as handle,
        pytest.raises(InvariantError, match="with its task and occurrence"),
    ):
        prepare_occurrence(handle, OCCURRENCE)


@pytest.mark.django_db
def test_the_keys_that_an_occurrence_needs_are_checked_like_any(declare: Declarations) -> None:
    ping = declare()

    for wrong in (Ping(""), object()):
        with (
            occurring((ping, Ping("a")), (ping, wrong)) as handle,
            pytest.raises((InvariantError, InputInvalid)),
        ):
            prepare_occurrence(handle, OCCURRENCE)
