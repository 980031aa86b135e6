"""The tasks that the tests of this folder run, and Django's names for whatever version there is."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import django

from testproject.shop.models import LedgerEntry
from ultimate_jobs.tasks import JobsTask, known, task_options

if TYPE_CHECKING:
    from django.tasks import task
    from django.tasks.base import TaskContext
    from django.tasks.exceptions import InvalidTaskBackend, TaskResultMismatch

    MODULE = "django.tasks"
    Context = TaskContext[Any, Any]
elif django.VERSION >= (6, 0):
    from django.tasks import TaskContext as Context, task
    from django.tasks.exceptions import InvalidTaskBackend, TaskResultMismatch

    MODULE = "django.tasks"
else:
    from django_tasks import TaskContext as Context, task
    from django_tasks.exceptions import (
        InvalidTaskBackendError as InvalidTaskBackend,
        TaskResultMismatch,
    )

    MODULE = "django_tasks"

__all__ = ["MODULE", "Context", "InvalidTaskBackend", "TaskResultMismatch", "ours", "task"]


def ours(declared: object) -> JobsTask:
    """Answer a task as what it is: the stubs know Django's class alone."""
    assert isinstance(declared, JobsTask)
    return declared


calls: list[Any] = []
"""What the functions noted; a fixture empties it."""

begun = threading.Event()
"""Set when ``takes_too_long`` has begun."""


@task
def noop(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


@task()
async def anoop(*args: Any, **kwargs: Any) -> None:
    """Do nothing, in a coroutine."""


@task
def add(a: int, b: int = 0) -> int:
    return a + b


@task
async def aadd(a: int, b: int = 0) -> int:
    return a + b


@task(priority=5)
def noted(word: str) -> str:
    calls.append(word)
    return word


@task
def raises_value_error() -> None:
    raise ValueError("this task failed")


@task
def raises_nothing_to_say() -> None:
    raise KeyError


@task
def exits() -> None:
    raise SystemExit("this task left")


@task
def raises_an_interrupt() -> None:
    raise KeyboardInterrupt("this task was interrupted")


@task
def raises_what_holds_an_exception() -> None:
    raise ValueError(ValueError("the inner one"))


@task
async def araises() -> None:
    raise LookupError("this coroutine failed")


@task
def answers_what_has_no_json() -> object:
    return object()


@task(takes_context=True)
def own_id(context: Context) -> str:
    return context.task_result.id


@task(takes_context=True)
async def aown_id(context: Context) -> str:
    return context.task_result.id


@task(takes_context=True)
@task_options(max_attempts=3, backoff=timedelta(milliseconds=1))
def second_time_lucky(context: Context, word: str) -> dict[str, Any]:
    if context.attempt == 1:
        raise ConnectionError("not yet")
    told = context.task_result
    return {
        "word": word,
        "attempt": context.attempt,
        "errors": [error.exception_class_path for error in told.errors],
    }


@task
@task_options(max_attempts=2, backoff="1ms")
def never_lucky() -> None:
    raise ConnectionError("never")


def patience(error: BaseException, result: Any) -> float | None:
    calls.append((type(error).__name__, result.attempts, len(result.errors)))
    return None if result.attempts == 2 else 0


@task
@task_options(max_attempts=9, backoff=patience)
def given_up_by_its_backoff() -> None:
    raise ConnectionError("busy")


@task
@task_options(timeout="50ms")
def takes_too_long() -> None:
    begun.set()
    while True:  # until a write is refused
        LedgerEntry.objects.filter(pk=0).update(repeats=0)


@task
@task_options(unique=True)
def only_one(word: str) -> str:
    return word


@task
@task_options(unique=lambda order, note="": str(order))
def one_an_order(order: int, note: str = "") -> str:
    return note


@task
@task_options(concurrency=1)
def one_at_a_time(word: str) -> str:
    return word


class Methods:
    """Holds what looks like a function of a module."""

    @staticmethod
    def static() -> None:
        """Do nothing."""

    def method(self) -> None:
        """Do nothing."""


DECLARED = [one for one in known.all_known() if one.task.module_path.startswith(f"{__name__}.")]
"""What a fixture makes known for the length of a test; other folders have workers of their own."""

for _one in DECLARED:
    known.forget(_one)
