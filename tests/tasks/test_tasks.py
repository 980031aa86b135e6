"""A task object, before anything is enqueued: what Django's own tests expect of it."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import django
import pytest
from asgiref.sync import async_to_sync

from tests.tasks import functions
from tests.tasks.conftest import backends
from tests.tasks.functions import MODULE, InvalidTaskBackend, ours, task
from ultimate_jobs.tasks import JobsBackend, JobsTask
from ultimate_jobs.tasks.framework import InvalidTask, Task, task_backends

SOON = datetime(2999, 1, 1, tzinfo=UTC)


def plain() -> None:
    """Do nothing."""


def test_the_backend_is_the_one_that_is_configured() -> None:
    assert isinstance(task_backends["default"], JobsBackend)


def test_every_capability_is_offered() -> None:
    assert JobsBackend.supports_defer
    assert JobsBackend.supports_async_task
    assert JobsBackend.supports_get_result
    assert JobsBackend.supports_priority


@pytest.mark.parametrize("declared", [functions.noop, functions.anoop, functions.noted])
def test_the_decorator_answers_a_task_of_ours(declared: Task[..., Any]) -> None:
    assert isinstance(declared, Task)
    assert isinstance(declared, JobsTask)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priority", 1),
        ("queue_name", "mail"),
        ("run_after", SOON),
        ("backend", "other"),
        ("max_attempts", 7),
        ("unique", True),
    ],
)
def test_using_changes_one_thing_of_a_copy(name: str, value: Any) -> None:
    entry = {"QUEUES": ["default", "mail"]}
    with backends(default=entry, other=entry):
        before = getattr(functions.noop, name)
        changed = ours(functions.noop).using(**{name: value})

        assert getattr(changed, name) == value != before
        assert getattr(functions.noop, name) == before
        assert isinstance(changed, JobsTask)


def test_using_nothing_answers_an_equal_task() -> None:
    same = functions.noop.using()

    assert same == functions.noop
    assert same is not functions.noop


def test_using_can_be_chained() -> None:
    later = functions.noop.using(run_after=SOON)
    sooner = later.using(priority=10)

    assert (later.run_after, later.priority) == (SOON, 0)
    assert (sooner.run_after, sooner.priority) == (SOON, 10)


def test_using_a_backend_that_is_not_configured_is_refused() -> None:
    with pytest.raises(InvalidTaskBackend, match="The connection 'unknown' doesn't exist"):
        functions.noop.using(backend="unknown")


@pytest.mark.parametrize("priority", [-101, 101, 3.1])
def test_a_priority_that_is_none_is_refused(priority: Any) -> None:
    with pytest.raises(InvalidTask, match="priority must be a whole number between -100 and 100"):
        functions.noop.using(priority=priority)


@pytest.mark.parametrize("priority", [-100, 0, 100])
def test_a_priority_within_the_bounds_is_taken(priority: int) -> None:
    assert functions.noop.using(priority=priority).priority == priority


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(InvalidTask, match="run_after must be an aware datetime"):
        functions.noop.using(run_after=SOON.replace(tzinfo=None))


def test_a_queue_that_is_not_configured_is_refused() -> None:
    with pytest.raises(InvalidTask, match="Queue 'mail' is not valid for backend"):
        functions.noop.using(queue_name="mail")


def test_no_queues_turn_the_check_of_queues_off() -> None:
    with backends(default={"QUEUES": []}):
        assert functions.noop.using(queue_name="any").queue_name == "any"


@pytest.mark.parametrize("function", [any, functions.Methods().method])
def test_what_is_no_function_of_a_module_is_refused(function: Any) -> None:
    with pytest.raises(InvalidTask, match="must be defined at a module level"):
        task()(function)


@pytest.mark.parametrize("function", [functions.Methods.static, lambda: None])
def test_a_function_that_cannot_be_imported_by_its_path_is_refused(function: Any) -> None:
    with pytest.raises(InvalidTask, match="cannot be imported"):
        task()(function)


def test_a_context_needs_an_argument() -> None:
    declare: Any = task(takes_context=True)
    with pytest.raises(InvalidTask, match="does not have a first argument of 'context'"):
        declare(plain)


def test_a_time_cannot_be_declared() -> None:
    declare: Any = task
    with pytest.raises(TypeError):
        declare(run_after=SOON)(plain)


def test_a_task_can_be_called() -> None:
    for declared in (ours(functions.add), ours(functions.aadd)):
        assert declared.call(40, b=2) == 42
        assert async_to_sync(declared.acall)(40, b=2) == 42


def test_a_task_is_named_by_its_function() -> None:
    assert functions.noop.name == "noop"
    assert functions.noop.module_path == "tests.tasks.functions.noop"


@pytest.mark.skipif(django.VERSION < (6, 1), reason="tasks are pickled by their path from 6.1 on")
def test_a_task_is_pickled_by_its_path() -> None:
    changed = ours(functions.noop).using(priority=3, max_attempts=4)

    assert pickle.loads(pickle.dumps(changed)) == changed  # noqa: S301 - it is ours


def test_the_framework_is_the_one_of_this_version() -> None:
    assert JobsBackend.__mro__[1].__module__ == f"{MODULE}.backends.base"
