"""The job behind every task function: named by the function's dotted path, declared when it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

from django.apps import apps

from ultimate_jobs.core.durations import duration
from ultimate_jobs.core.retry import Backoff, Retry
from ultimate_jobs.core.settlement import Ending
from ultimate_jobs.core.spec import (
    NO_TENANT,
    JobSpec,
    checked_concurrency,
    checked_name,
    checked_span,
)
from ultimate_jobs.definitions.job import Job
from ultimate_jobs.errors import DeclarationInvalid, JobsError
from ultimate_jobs.tasks import known
from ultimate_jobs.tasks.bodies import body_over, tell_of_the_unsaid
from ultimate_jobs.tasks.calls import CALLS, TaskCall, key_by
from ultimate_jobs.tasks.framework import InvalidTask, Task
from ultimate_jobs.tasks.known import Declared
from ultimate_jobs.tasks.options import TaskOptions

LONGEST_WAIT = timedelta(days=365)
_OF_THE_FUNCTION = ("backoff", "timeout", "concurrency")


def declare(task: Task[..., Any], options: TaskOptions) -> Declared:
    """Answer the job behind a task, declared now if this is the first task over its function.

    Raises:
        InvalidTask: an option cannot be meant, or is another than the function was declared with.

    """
    before = known.known_as(task.module_path)
    if before is not None and before.task.func is task.func:
        _refuse_others(before, task, options)
        return before
    try:
        job = Job[TaskCall, Any](_spec(task, options))
        declared = Declared(task=task, options=options, job=job, late=apps.ready)
        known.remember(declared)
    except JobsError as error:
        raise InvalidTask(str(error)) from error
    return declared


def spec_for(declared: Declared, options: TaskOptions) -> JobSpec:
    """Answer what to enqueue by: an enqueue may have its own attempts and its own uniqueness.

    Raises:
        InvalidTask: one of them cannot be meant.

    """
    spec = declared.job.spec
    if options.max_attempts != declared.options.max_attempts:
        try:
            spec = replace(spec, retry=replace(spec.retry, attempts=_attempts(options)))
        except DeclarationInvalid as error:
            raise InvalidTask(str(error)) from error
    if options.unique != declared.options.unique:
        spec = replace(spec, idempotency_key=_key(options))
    return spec


def _spec(task: Task[..., Any], options: TaskOptions) -> JobSpec:
    path = checked_name("the path of a task's function", task.module_path)
    limit, key, when_busy = checked_concurrency(path, options.concurrency)
    limit_of_time = options.timeout
    return JobSpec(
        name=path,
        queue=checked_name("a queue name", task.queue_name),
        schema=CALLS,
        tenant=NO_TENANT,
        idempotency_key=_key(options),
        retry=_retry(path, options),
        body=body_over(task, options.backoff if callable(options.backoff) else None),
        concurrency=limit,
        concurrency_key=None if key is None else lambda call: key(*call.args, **call.kwargs),
        when_busy=when_busy,
        timeout=None if limit_of_time is None else checked_span(path, "timeout", limit_of_time),
        on_settled=tell_of_the_unsaid,
        hooked_endings=frozenset(Ending) - {Ending.COMPLETED},
    )


def _retry(path: str, options: TaskOptions) -> Retry:
    attempts, backoff = _attempts(options), options.backoff
    if backoff is None:
        return Retry(attempts=attempts)
    if callable(backoff):
        return Retry(attempts=attempts, max_delay=LONGEST_WAIT)
    for named in get_args(Backoff):
        if backoff == named:
            return Retry(attempts=attempts, backoff=named)
    try:
        wait = duration(backoff)
    except ValueError:
        raise DeclarationInvalid(
            f"'{path}': backoff must be a length of time, one of {', '.join(get_args(Backoff))}, "
            "or a function of the exception and the result."
        ) from None
    return Retry(attempts=attempts, backoff="fixed", delay=wait, max_delay=wait, jitter=False)


def _attempts(options: TaskOptions) -> int:
    return 1 if options.max_attempts is None else options.max_attempts


def _key(options: TaskOptions) -> Callable[[TaskCall], str]:
    if options.unique not in (None, True, False) and not callable(options.unique):
        raise InvalidTask("unique must be True, False or a function of the arguments.")
    return key_by(options.unique)


def _refuse_others(before: Declared, task: Task[..., Any], options: TaskOptions) -> None:
    different = [
        name for name in _OF_THE_FUNCTION if getattr(options, name) != getattr(before.options, name)
    ]
    if task.takes_context != before.task.takes_context:
        different.append("takes_context")
    if different:
        raise InvalidTask(
            f"'{task.module_path}' was declared with another {' and '.join(different)}: these "
            "belong to the function, and whoever runs it knows its first declaration."
        )
