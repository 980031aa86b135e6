"""What a task may say beyond Django's own, on this backend and on the stock ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import django
import pytest
from django.test import override_settings

from tests.builders import work_off
from tests.tasks import functions
from tests.tasks.conftest import BACKEND, backends
from tests.tasks.functions import MODULE, ours, task
from ultimate_jobs import Concurrency
from ultimate_jobs.models import Job, OutboxEntry
from ultimate_jobs.tasks import JobsTask, framework, task_options
from ultimate_jobs.tasks.framework import InvalidTask, TaskResultStatus, task_backends
from ultimate_jobs.tasks.known import known_as

decorator_takes_them = pytest.mark.skipif(
    (6, 0) <= django.VERSION < (6, 1), reason="Django 6.0 hands no options on to a backend's class"
)

decorate: Any = task


def plain(order: int = 0) -> int:
    """Answer the order."""
    return order


def another(order: int = 0) -> int:
    """Answer the order."""
    return order


def both_ways(**options: Any) -> list[Any]:
    return [
        pytest.param(lambda: decorate(**options)(plain), marks=decorator_takes_them, id="on @task"),
        pytest.param(lambda: task(task_options(**options)(another)), id="below @task"),
    ]


@pytest.mark.parametrize(
    "declare",
    both_ways(
        max_attempts=4,
        backoff="linear",
        timeout="30s",
        unique=True,
        concurrency=Concurrency(limit=2, key=lambda order: f"order-{order}"),
    ),
)
def test_options_become_those_of_the_job(declare: Callable[[], JobsTask]) -> None:
    declared = declare()

    known = known_as(declared.module_path)
    assert known is not None
    job = known.job
    assert (job.retry.attempts, job.retry.backoff) == (4, "linear")
    assert job.timeout == timedelta(seconds=30)
    assert (job.concurrency, job.when_busy) == (2, "wait")
    assert known.job.spec.concurrency_key is not None


@pytest.mark.django_db
@pytest.mark.parametrize("declare", both_ways(max_attempts=4, unique=True))
def test_an_enqueue_heeds_the_options(declare: Callable[[], JobsTask]) -> None:
    declared = declare()

    first = declared.enqueue(1)

    assert declared.enqueue(1).id == first.id
    assert declared.using(unique=False).enqueue(1).id != first.id
    assert declared.get_result(first.id).status == TaskResultStatus.READY


def test_a_length_of_time_is_a_wait_that_stays() -> None:
    known = known_as("tests.tasks.functions.never_lucky")

    assert known is not None
    assert known.job.retry.schedule(4) == [timedelta(milliseconds=1)] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_attempts": 0}, "attempts"),
        ({"backoff": "quadratic"}, "backoff must be"),
        ({"backoff": 0}, "backoff must be"),
        ({"timeout": "soon"}, "timeout"),
        ({"unique": "yes"}, "unique must be"),
        ({"concurrency": 0}, "concurrency"),
    ],
    ids=["no attempts", "backoff", "no wait", "timeout", "unique", "no room"],
)
def test_an_option_that_cannot_be_meant_is_refused(options: dict[str, Any], message: str) -> None:
    def refused() -> None:
        """Do nothing."""

    refused.__qualname__ = "refused"

    with pytest.raises(InvalidTask, match=message):
        task(task_options(**options)(refused))

    assert known_as(f"{__name__}.refused") is None


def test_an_option_of_the_function_cannot_be_said_twice() -> None:
    task(plain)

    with pytest.raises(InvalidTask, match="declared with another takes_context"):
        replace(functions.own_id, takes_context=False)
    with pytest.raises(InvalidTask, match="declared with another timeout"):
        task(task_options(timeout="1s")(plain))


@pytest.mark.django_db
def test_a_backend_says_how_often_its_tasks_are_tried() -> None:
    with backends(default={"OPTIONS": {"max_attempts": 6}}):
        result = task(plain).enqueue()
        with_more = functions.never_lucky.enqueue()

    attempts = dict(OutboxEntry.objects.values_list("id", "max_attempts"))
    assert {str(found): said for found, said in attempts.items()} == {
        result.id: 6,
        with_more.id: 2,
    }


@pytest.mark.django_db(transaction=True)
def test_a_capped_task_runs_like_any_other() -> None:
    results = [functions.one_at_a_time.enqueue(word) for word in "abc"]

    work_off()

    assert {row.lease_key for row in Job.objects.all()} != {None}
    for result in results:
        result.refresh()
        assert result.return_value in "abc"


@pytest.mark.parametrize("stock", ["ImmediateBackend", "DummyBackend"])
def test_tests_can_take_a_stock_backend_for_tasks_with_options(stock: str) -> None:
    double = {"default": {"BACKEND": f"ultimate_jobs.tasks.testing.{stock}"}}
    with override_settings(TASKS=double):
        assert isinstance(task_backends["default"], getattr(framework, stock))
        declared = replace(ours(functions.add), max_attempts=4, timeout="1s")
        result = declared.enqueue(5)

        assert result.args == [5]
        if stock == "ImmediateBackend":
            assert result.return_value == 5
        else:
            assert result.status == TaskResultStatus.READY
            backend: Any = task_backends["default"]
            assert [kept.id for kept in backend.results] == [result.id]


@decorator_takes_them
@pytest.mark.parametrize("stock", ["ImmediateBackend", "DummyBackend"])
def test_the_decorator_takes_options_on_the_doubles(stock: str) -> None:
    double = {"default": {"BACKEND": f"ultimate_jobs.tasks.testing.{stock}"}}
    with override_settings(TASKS=double):
        declared = decorate(max_attempts=4, backoff=2, concurrency=1)(plain)

        assert declared.max_attempts == 4
        assert known_as(declared.module_path) is None


@pytest.mark.django_db
@pytest.mark.parametrize("stock", ["immediate.ImmediateBackend", "dummy.DummyBackend"])
def test_a_task_of_a_stock_backend_can_be_enqueued_with_ours(stock: str) -> None:
    entries = {
        "default": {"BACKEND": f"{MODULE}.backends.{stock}"},
        "ours": {"BACKEND": BACKEND},
    }
    with override_settings(TASKS=entries):
        plainly = task(plain)
        result = plainly.using(backend="ours").enqueue(3)

        assert not isinstance(plainly, JobsTask)
        assert (result.backend, result.args) == ("ours", [3])
        assert task_backends["ours"].get_result(result.id).task.func is plain
