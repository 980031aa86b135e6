"""An enqueue: what is stored, what is answered, and what a result by id tells."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings

from tests.builders import a_job, relay_all, rolled_back, second_connection, sql, staged
from tests.tasks import functions
from tests.tasks.conftest import backends
from tests.tasks.functions import TaskResultMismatch, ours
from ultimate_jobs.models import Job, OutboxEntry
from ultimate_jobs.tasks.framework import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
)

pytestmark = pytest.mark.django_db(transaction=True)

LATER = datetime(2999, 1, 1, tzinfo=UTC)


@pytest.mark.django_db
@pytest.mark.parametrize("task", [functions.noop, functions.anoop])
@pytest.mark.parametrize("awaited", [False, True], ids=["enqueue", "aenqueue"])
def test_an_enqueue_answers_a_result_that_is_ready(task: Any, *, awaited: bool) -> None:
    enqueue = async_to_sync(task.aenqueue) if awaited else task.enqueue

    result = enqueue(1, [2], three={"four": None})

    assert result.task == task
    assert (result.args, result.kwargs) == ([1, [2]], {"three": {"four": None}})
    assert result.status == TaskResultStatus.READY
    assert result.backend == "default"
    assert result.enqueued_at is not None
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
    assert not result.is_finished
    with pytest.raises(ValueError, match="Task has not finished yet"):
        _ = result.return_value
    assert len(result.id) <= 64


def test_a_task_is_a_job_named_by_its_path() -> None:
    result = functions.noted.enqueue("a")

    row = Job.objects.get()
    assert str(row.id) == result.id
    assert (row.name, row.queue, row.priority) == ("tests.tasks.functions.noted", "default", 5)
    assert (row.state, row.max_attempts) == ("ready", 1)


def test_what_using_says_is_on_the_row() -> None:
    with backends(default={"QUEUES": ["default", "mail"]}):
        changed = ours(functions.noop).using(
            priority=-7, queue_name="mail", run_after=LATER, max_attempts=4
        )
        result = changed.enqueue()

        row = Job.objects.get()
        assert (row.priority, row.queue, row.run_at) == (-7, "mail", LATER)
        assert (row.state, row.max_attempts) == ("delayed", 4)
        found = functions.noop.get_result(result.id)
        assert found.task == changed
        assert found.status == TaskResultStatus.READY


@pytest.mark.django_db
@pytest.mark.parametrize("argument", [{1: "a key that is no text"}, float("nan"), "\x00"], ids=repr)
def test_an_argument_that_would_come_back_as_another_is_refused(argument: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported value"):
        functions.noop.enqueue(argument)


@pytest.mark.django_db
@pytest.mark.parametrize("argument", [LATER, object(), {1, 2}, UUID(int=7)], ids=type)
@pytest.mark.parametrize("awaited", [False, True], ids=["enqueue", "aenqueue"])
def test_an_argument_without_a_json_form_is_refused(argument: Any, *, awaited: bool) -> None:
    task: Any = functions.noop
    enqueue = async_to_sync(task.aenqueue) if awaited else task.enqueue

    with pytest.raises(TypeError, match="Unsupported type"):
        enqueue([argument])
    with pytest.raises(TypeError, match="Unsupported type"):
        enqueue(named=argument)

    assert not OutboxEntry.objects.exists()


@pytest.mark.django_db
def test_arguments_are_stored_as_django_normalizes_them() -> None:
    result = functions.noop.enqueue(b"bytes", (1, 2), {"three": 4})

    assert result.args == ["bytes", [1, 2], {"three": 4}]
    assert functions.noop.get_result(result.id).args == result.args


@pytest.mark.django_db
@pytest.mark.parametrize("awaited", [False, True], ids=["enqueue", "aenqueue"])
def test_a_task_is_validated_again_at_its_enqueue(*, awaited: bool) -> None:
    with backends(default={"QUEUES": ["mail"]}):
        mail = functions.noop.using(queue_name="mail")
    enqueue: Any = async_to_sync(mail.aenqueue) if awaited else mail.enqueue

    with pytest.raises(InvalidTask, match="Queue 'mail' is not valid for backend"):
        enqueue()

    assert not OutboxEntry.objects.exists()


def test_settings_that_change_are_heeded() -> None:
    with backends(default={"QUEUES": ["one"]}):
        assert task_backends["default"].queues == {"one"}
    assert task_backends["default"].queues == {"default"}

    with override_settings(TASKS={}), pytest.raises(ImproperlyConfigured):
        functions.noop.using(priority=1).enqueue()


# Transactions


def test_an_enqueue_is_part_of_the_open_transaction() -> None:
    with transaction.atomic():
        result = functions.noop.enqueue()
        assert [str(entry.id) for entry in staged()] == [result.id]
        assert functions.noop.get_result(result.id).status == TaskResultStatus.READY

        def elsewhere() -> None:
            functions.noop.get_result(result.id)

        with pytest.raises(TaskResultDoesNotExist):
            second_connection(elsewhere).result(60)

    relay_all()
    assert str(Job.objects.get().id) == result.id
    assert functions.noop.get_result(result.id).status == TaskResultStatus.READY


def test_a_transaction_that_is_undone_leaves_no_task() -> None:
    with rolled_back():
        result = functions.noop.enqueue()

    assert not OutboxEntry.objects.exists()
    with pytest.raises(TaskResultDoesNotExist):
        functions.noop.get_result(result.id)


# Results by id


@pytest.mark.django_db
@pytest.mark.parametrize("awaited", [False, True], ids=["get_result", "aget_result"])
def test_a_result_is_found_by_its_id(*, awaited: bool) -> None:
    result = functions.noop.enqueue(1)
    task: Any = functions.noop
    get = async_to_sync(task.aget_result) if awaited else task.get_result

    found = get(result.id)

    assert (found.id, found.task, found.args) == (result.id, result.task, [1])
    assert (found.status, found.backend) == (result.status, "default")


def test_a_result_is_found_from_another_thread() -> None:
    result = functions.noop.enqueue()

    found = second_connection(lambda: functions.noop.get_result(result.id)).result(60)

    assert found.id == result.id


def test_a_result_can_be_refreshed() -> None:
    result: Any = functions.noop.enqueue()
    result.refresh()
    async_to_sync(result.arefresh)()
    assert result.status == TaskResultStatus.READY

    sql("UPDATE x_jobs SET state = 'cancelled', updated_at = now()")
    result.refresh()

    assert result.status == TaskResultStatus.FAILED
    assert result.is_finished


@pytest.mark.django_db
@pytest.mark.parametrize("wanted", ["123", "", str(UUID(int=7)), 5], ids=str)
@pytest.mark.parametrize("awaited", [False, True], ids=["get_result", "aget_result"])
def test_an_id_that_nothing_has_is_an_error(wanted: Any, *, awaited: bool) -> None:
    task: Any = functions.noop
    get = async_to_sync(task.aget_result) if awaited else task.get_result

    with pytest.raises(TaskResultDoesNotExist):
        get(wanted)


@pytest.mark.django_db
@pytest.mark.parametrize("awaited", [False, True], ids=["get_result", "aget_result"])
def test_the_result_of_another_task_is_a_mismatch(*, awaited: bool) -> None:
    result = functions.anoop.enqueue()
    task: Any = functions.noop
    get = async_to_sync(task.aget_result) if awaited else task.get_result

    with pytest.raises(TaskResultMismatch, match="Task does not match"):
        get(result.id)


@pytest.mark.django_db
def test_the_result_of_another_backend_does_not_exist() -> None:
    with backends(default={}, other={}):
        result = functions.noop.using(backend="other").enqueue()

        assert functions.noop.using(backend="other").get_result(result.id).backend == "other"
        with pytest.raises(TaskResultDoesNotExist):
            functions.noop.get_result(result.id)


@pytest.mark.django_db
def test_a_job_that_is_no_task_has_no_result() -> None:
    job = a_job(name="shop.checkout")

    with pytest.raises(TaskResultDoesNotExist):
        functions.noop.get_result(str(job.id))


@pytest.mark.django_db
def test_a_task_whose_function_is_gone_has_no_result() -> None:
    gone = a_job(name="tests.tasks.functions.gone")
    elsewhere = a_job(name="no.such.module.task")

    for job in (gone, elsewhere):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(str(job.id))


# Uniqueness


@pytest.mark.django_db
def test_calls_of_a_task_do_not_know_each_other() -> None:
    assert len({functions.noop.enqueue(1).id for _ in range(3)}) == 3


def test_a_unique_call_that_waits_is_answered_with_its_result() -> None:
    told: list[str] = []

    def note(task_result: Any, **kwargs: Any) -> None:
        told.append(task_result.id)

    task_enqueued.connect(note)
    try:
        first = functions.only_one.enqueue("a")
        again = functions.only_one.enqueue("a")
        other = functions.only_one.enqueue("b")
    finally:
        task_enqueued.disconnect(note)

    assert again.id == first.id != other.id
    assert told == [first.id, other.id]
    assert Job.objects.count() == 2


@pytest.mark.django_db
def test_a_function_says_which_calls_are_the_same() -> None:
    first = functions.one_an_order.enqueue(7, note="first")
    again = functions.one_an_order.enqueue(7, note="second")

    assert again.id == first.id
    assert again.kwargs == {"note": "first"}


@pytest.mark.django_db
def test_one_enqueue_can_be_unique() -> None:
    first = ours(functions.noop).using(unique=True).enqueue(1)

    assert ours(functions.noop).using(unique=True).enqueue(1).id == first.id
    assert functions.noop.enqueue(1).id != first.id


@pytest.mark.django_db
def test_a_unique_call_in_a_transaction_is_answered_with_its_result() -> None:
    with transaction.atomic():
        first = functions.only_one.enqueue("a")
        again = functions.only_one.enqueue("a")

    assert (again.id, again.status) == (first.id, TaskResultStatus.READY)


# Signals


@pytest.mark.django_db
def test_the_enqueue_is_told_once_with_its_result() -> None:
    told: list[Any] = []

    def note(sender: Any, task_result: Any, **kwargs: Any) -> None:
        told.append((sender, task_result, threading.current_thread()))

    task_enqueued.connect(note)
    try:
        result = functions.noop.enqueue()
    finally:
        task_enqueued.disconnect(note)

    assert told == [(type(task_backends["default"]), result, threading.current_thread())]
