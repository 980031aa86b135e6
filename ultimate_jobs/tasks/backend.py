"""``JobsBackend``: what ``TASKS`` names."""

from __future__ import annotations

from collections.abc import Iterable
from secrets import token_hex
from typing import Any

from django.core.checks import CheckMessage

from ultimate_jobs.core.ids import instant_of
from ultimate_jobs.enqueue import facade
from ultimate_jobs.enqueue.options import Options
from ultimate_jobs.tasks import checks, results
from ultimate_jobs.tasks.calls import call_of, storable
from ultimate_jobs.tasks.declared import declare, spec_for
from ultimate_jobs.tasks.framework import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from ultimate_jobs.tasks.options import JobsTask, options_of


class JobsBackend(BaseTaskBackend):
    """Runs Django's tasks as jobs of this package.

    ``OPTIONS`` may have ``max_attempts``, for tasks that say none, and ``modules``, more modules
    with tasks for every process to import than the ``tasks`` of every installed app.
    """

    task_class = JobsTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    is_ultimate_jobs = True

    def validate_task(self, task: Task[..., Any]) -> None:
        """Refuse a task that cannot run, and make the job behind it known.

        Raises:
            InvalidTask: it cannot.

        """
        super().validate_task(task)
        if not task.func.__qualname__.isidentifier():
            raise InvalidTask(
                f"'{task.module_path}' cannot be imported by a worker: define the function at a "
                "module level."
            )
        declare(task, options_of(task, self.options))

    def enqueue(  # type: ignore[override] # the stubs bind the arguments to the task's own
        self, task: Task[..., Any], args: Iterable[Any], kwargs: dict[str, Any]
    ) -> TaskResult[..., Any]:
        """Enqueue a call: in an open transaction it is a row of that, outside one it is queued at once.

        A call of a ``unique`` task that waits or runs already is answered with its result.

        Raises:
            InvalidTask: the task cannot run here.
            TypeError: an argument has no JSON form.
            JobsError: the arguments are too large, or the database did not answer.

        """
        super().validate_task(task)
        options = options_of(task, self.options)
        declared = declare(task, options)
        call = call_of(task, declared.task, storable(list(args)), storable(kwargs))
        queued = facade.enqueue(
            spec_for(declared, options),
            call,
            Options(
                run_at=task.run_after,
                priority=task.priority,
                queue=task.queue_name,
                key_prefix="" if options.unique else f"{token_hex(16)}:",
            ),
        )
        if queued.deduped:
            return self.get_result(str(queued.id))
        found = results.result(
            task,
            call,
            id=str(queued.id),
            status=TaskResultStatus.READY,
            enqueued_at=instant_of(queued.id),
        )
        task_enqueued.send(type(self), task_result=found)
        return found

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        """Answer the result of an id, from any process.

        Raises:
            TaskResultDoesNotExist: no task of this backend has this id.

        """
        found = results.get(result_id)
        if found.backend != self.alias:
            raise TaskResultDoesNotExist(result_id)
        return found

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Find what keeps tasks of this backend from running."""
        return checks.check_backend(self.alias, self.queues, self.options)
