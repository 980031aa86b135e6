"""What a test wants to know about runs and the rows do not say."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from ultimate_jobs.core.records import Fence
from ultimate_jobs.core.retry import Retry, code_of
from ultimate_jobs.core.settlement import Failed, Outcome, UnwindFailed, Unwound
from ultimate_jobs.core.spec import JobSpec
from ultimate_jobs.errors import RateLimited, RunFailed
from ultimate_jobs.steps.runner import Answered, Compensate, Opened, StepRunner
from ultimate_jobs.steps.suspension import ControlFlow
from ultimate_jobs.worker.held import Held

_A_BODYS_OWN = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)


class Watch:
    """Counts how often the functions of steps really ran, and keeps what bodies raised."""

    def __init__(self) -> None:
        self._executions: defaultdict[UUID, Counter[str]] = defaultdict(Counter)
        self.raised: dict[UUID, BaseException] = {}
        """What the last attempt of a job raised."""
        self.failures: list[BaseException] = []
        """What failed and nobody has been told of yet."""

    def body_of(self, spec: JobSpec, job: UUID) -> JobSpec:
        """Answer a declaration whose body is watched."""
        body: Callable[[Any], Any] = spec.body
        self.raised.pop(job, None)

        def watched(run: object) -> object:
            try:
                return body(run)
            except BaseException as error:
                self._note(job, error)
                raise

        async def watched_coroutine(run: object) -> object:
            try:
                return await body(run)
            except BaseException as error:
                self._note(job, error)
                raise

        chosen = watched_coroutine if inspect.iscoroutinefunction(body) else watched
        return replace(spec, body=chosen)

    def runner(self, *args: Any, **options: Any) -> StepRunner:
        """Build a runner of steps that is watched."""
        return _WatchedSteps(*args, **options, began=self._began)

    def executions_of(self, job: UUID) -> Mapping[str, int]:
        """Answer how often each step of a job was executed, over the whole test."""
        return self._executions[job]

    def end_of(self, job: UUID) -> None:
        """Raise what ends a test and not just a job: a key press, ``pytest.fail``."""
        raised = self.raised.get(job)
        if raised is not None and not isinstance(raised, _A_BODYS_OWN):
            raise raised

    def ended(self, held: Held, outcome: Outcome) -> None:
        """Keep the failure of an attempt."""
        failed = _failure_in(outcome)
        if failed is None or failed.code == RateLimited.code:
            return
        told = (held.token.reason, self.raised.get(held.job.id))
        fitting = (e for e in told if e is not None and code_of(e) == failed.code)
        unsaid = RunFailed(f"'{held.job.name}' failed: {_first_line(failed.error)}")
        error = next(fitting, unsaid)
        error.add_note(f"Job '{held.job.name}' {held.job.id}, attempt {held.job.attempt}.")
        self.raised[held.job.id] = error
        self.failures.append(error)

    def hook_failed(self, error: BaseException) -> None:
        """Keep the failure of an ending hook."""
        self.failures.append(error)

    def _note(self, job: UUID, error: BaseException) -> None:
        if not isinstance(error, ControlFlow):
            self.raised[job] = error

    def _began(self, job: UUID, step: str) -> None:
        self._executions[job][step] += 1


def _failure_in(outcome: Outcome) -> Failed | None:
    match outcome:
        case (Failed() as failed) | Unwound(failed) | UnwindFailed(failed=failed):
            return failed
        case _:
            return None


def _first_line(error: str) -> str:
    return error.partition("\n")[0].removesuffix(".") + "."


class _WatchedSteps(StepRunner):
    def __init__(
        self,
        store: Any,
        fence: Fence,
        *args: Any,
        began: Callable[[UUID, str], None],
        **options: Any,
    ) -> None:
        super().__init__(store, fence, *args, **options)
        self._began = partial(began, fence.job_id)

    def open(
        self, name: str, *, once: bool, compensate: Compensate | None, retry: Retry | None
    ) -> Opened | Answered:
        opened = super().open(name, once=once, compensate=compensate, retry=retry)
        if isinstance(opened, Opened):
            self._began(name)
        return opened

    def open_internal(self, name: str) -> Opened:
        opened = super().open_internal(name)
        self._began(name)
        return opened
