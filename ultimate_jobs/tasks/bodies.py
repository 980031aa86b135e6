"""How a worker runs a task: the body of the job behind it."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from functools import update_wrapper
from typing import Any

from asgiref.sync import sync_to_async

from ultimate_jobs.core.durations import duration
from ultimate_jobs.core.failure import describe
from ultimate_jobs.core.ids import instant_of, new_id
from ultimate_jobs.core.jsonform import JSONValue, dumps
from ultimate_jobs.core.records import StepWrite
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.core.retry import Decided, classify
from ultimate_jobs.definitions.async_context import AsyncRun
from ultimate_jobs.definitions.context import Run, Settled
from ultimate_jobs.errors import JobsError, JobTimeout, KeyBusy, LeaseLost, RateLimited
from ultimate_jobs.process.log import event
from ultimate_jobs.tasks import results
from ultimate_jobs.tasks.calls import TaskCall, storable
from ultimate_jobs.tasks.framework import (
    Task,
    TaskContext,
    TaskResult,
    TaskResultStatus,
    task_backends,
    task_finished,
    task_started,
)
from ultimate_jobs.tasks.options import BackoffFunction

AnyRun = Run[TaskCall] | AsyncRun[TaskCall]


def body_over(task: Task[..., Any], backoff: BackoffFunction | None) -> Callable[..., Any]:
    """Make the body that runs a task's function: ``async`` exactly if the function is."""
    function = task.func
    body: Callable[..., Any]
    if inspect.iscoroutinefunction(function):

        async def call_async(run: AsyncRun[TaskCall]) -> JSONValue:
            attempt = await sync_to_async(Attempt)(task, run, backoff)
            try:
                args, kwargs = attempt.arguments()
                value = storable(await function(*args, **kwargs))
            except BaseException as error:
                if not run.signal.aborted:
                    await sync_to_async(attempt.failed)(error)
                raise
            return await sync_to_async(attempt.succeeded)(value)

        body = call_async
    else:

        def call(run: Run[TaskCall]) -> JSONValue:
            attempt = Attempt(task, run, backoff)
            try:
                args, kwargs = attempt.arguments()
                value = storable(function(*args, **kwargs))
            except BaseException as error:
                if not run.signal.aborted:
                    attempt.failed(error)
                raise
            return attempt.succeeded(value)

        body = call
    return update_wrapper(body, function, updated=())


class Attempt:
    """One attempt at a task, as its result shows it. Making one says that the task has started."""

    def __init__(self, task: Task[..., Any], run: AnyRun, backoff: BackoffFunction | None) -> None:
        self._task = task
        self._run = run
        self._backoff = backoff
        self._worker = run.steps.fence.worker
        self._began = time.monotonic()
        self._result = self._running()
        _send(task_started, self._result)

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Answer what the function is called with."""
        args, kwargs = self._result.args, self._result.kwargs
        if self._task.takes_context:
            args = [TaskContext(task_result=self._result), *args]
        return args, kwargs

    def succeeded(self, value: Any) -> JSONValue:
        """Say that the task has succeeded; answer what is stored of that."""
        took = time.monotonic() - self._began
        if self._is_ours():
            self._end(TaskResultStatus.SUCCESSFUL, _return_value=value)
            _send(task_finished, self._result)
        return results.success(value, took=took, worker=self._worker)

    def failed(self, error: BaseException) -> None:
        """Record a failure, and say that the task has failed if it is not tried again.

        Called while the error is handled, so that receivers of the signal find it.

        Raises:
            Decided: the task's own backoff has decided when it is tried again.

        """
        if isinstance(error, RateLimited):  # it has not been tried
            return
        self._record(error)
        self._result.errors.append(results.error_from(describe(error)))
        again = not self._run.final_attempt and classify(error) != "terminal"
        wait = self._wait_after(error) if again and self._backoff else None
        if not again or (self._backoff and wait is None):
            self._end(TaskResultStatus.FAILED)
            _send(task_finished, self._result)
        if again and self._backoff:
            raise Decided(error, wait)

    def _wait_after(self, error: BaseException) -> timedelta | None:
        asked = self._backoff(error, self._result) if self._backoff else None
        return None if asked is None else duration(asked, zero=True)

    def _running(self) -> TaskResult[..., Any]:
        if self._run.attempt > 1:
            return results.get(self._run.job_id)
        now = instant_of(new_id())
        return results.result(
            self._task,
            self._run.input,
            id=str(self._run.job_id),
            status=TaskResultStatus.RUNNING,
            enqueued_at=instant_of(self._run.job_id),
            started_at=now,
            last_attempted_at=now,
            worker_ids=[self._worker],
        )

    def _end(self, status: TaskResultStatus, **found: Any) -> None:
        results.put_on(self._result, status=status, finished_at=instant_of(new_id()), **found)

    def _record(self, error: BaseException) -> None:
        """Keep the failure as a step of the run: the row itself remembers only the last one."""
        fence = self._run.steps.fence
        took = timedelta(seconds=time.monotonic() - self._began)
        write = StepWrite(
            name=results.step_name(fence.claim),
            position=fence.claim,
            status=StepStatus.FAILED,
            output=dumps({"worker": self._worker}),
            error=describe(error),
            took=took,
        )
        try:
            self._run.steps.put(write)
        except Exception as refused:  # noqa: BLE001 - the failure counts all the same
            event(
                logging.WARNING,
                "jobs.task.attempt-unrecorded",
                id=self._run.job_id,
                name=self._task.module_path,
                error=type(refused).__name__,
            )

    def _is_ours(self) -> bool:
        """Answer whether the attempt may still end the task: it may have been given up."""
        return not self._run.signal.aborted or results.is_held(self._run.steps.fence)


_UNSAID = {error.code: error for error in (JobTimeout, KeyBusy, LeaseLost)}


def tell_of_the_unsaid(settled: Settled[TaskCall]) -> None:
    """Say that a task has failed when no body could: it was cut off, or never started."""
    kind = _UNSAID.get(settled.code or "")
    if kind is not None:
        try:
            _raise(kind, settled.error or "")
        except kind:  # receivers look for the exception that is being handled
            _send(task_finished, results.get(settled.job_id))


def _raise(kind: type[JobsError], recorded: str) -> None:
    raise kind(recorded.partition("\n")[0])


def _send(signal: Any, result: TaskResult[..., Any]) -> None:
    """Tell receivers; what one of them raises is logged by Django and fails no task."""
    signal.send_robust(sender=type(task_backends[result.backend]), task_result=result)
