"""``on_settled``: told once that a job ended, after the ending was written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from ultimate_jobs.core.jsonform import JSONValue, loads
from ultimate_jobs.core.records import BuriedJob, ClaimedJob
from ultimate_jobs.core.settlement import (
    Completed,
    Ending,
    Failed,
    Refused,
    UnwindFailed,
    Unwound,
)
from ultimate_jobs.core.spec import JobSpec
from ultimate_jobs.core.states import JobState
from ultimate_jobs.definitions.context import Settled
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import JobsError, KeyBusy, LeaseLost, OnSettledFailed
from ultimate_jobs.process.cancel import CancelToken
from ultimate_jobs.process.log import event
from ultimate_jobs.tenancy import in_tenant
from ultimate_jobs.worker.execute import tenant_of, tidy
from ultimate_jobs.worker.flight import Flight
from ultimate_jobs.worker.settle import Ended

HOOK_TRIES = 3


@dataclass(slots=True, eq=False)
class Hook:
    """One call of one hook, with everything it will be told."""

    spec: JobSpec
    call: Callable[[Settled[Any]], None]
    row: ClaimedJob | BuriedJob
    outcome: Ending
    result: JSONValue = None
    error: str | None = None
    code: str | None = None
    token: CancelToken = field(default_factory=CancelToken)
    flight: Flight = field(default_factory=Flight)


def hook_after(ended: Ended) -> Hook | None:
    """Answer the hook that a written ending calls for."""
    spec, ending = ended.held.spec, ended.verdict.ending
    if spec.on_settled is None or ending not in spec.hooked_endings:
        return None
    error = ended.verdict.settlement.error
    match ended.outcome:
        case Completed(result):
            return Hook(spec, spec.on_settled, ended.held.job, ending, result=loads(result))
        case (
            Failed(code=code) | Unwound(Failed(code=code)) | UnwindFailed(failed=Failed(code=code))
        ):
            return Hook(spec, spec.on_settled, ended.held.job, ending, error=error, code=code)
        case Refused():
            return Hook(
                spec, spec.on_settled, ended.held.job, ending, error=error, code=KeyBusy.code
            )
        case _:
            return None


def hook_after_burial(spec: JobSpec, buried: BuriedJob) -> Hook | None:
    """Answer the hook that a burial calls for."""
    if spec.on_settled is None:
        return None
    ending = Ending.DEAD_LETTERED if buried.state is JobState.DEAD else Ending.DROPPED
    return Hook(spec, spec.on_settled, buried, ending, error=buried.last_error, code=LeaseLost.code)


def run_hook(hook: Hook, driver: Driver) -> BaseException | None:
    """Call a hook, up to three times back to back, while its time lasts. Body thread.

    Answers why it failed, if it did; the job's ending stands whatever the hook does.
    """
    failure: BaseException | None = None
    for _ in range(HOOK_TRIES):
        if hook.token.aborted:
            break
        try:
            Context().run(_call, hook)
        except BaseException as error:  # noqa: BLE001 - a hook may raise anything; the job has ended
            failure = error
        else:
            failure = None
            break
        finally:
            tidy(driver, lambda: {"id": hook.row.id, "name": hook.spec.name})
    return failure or hook.token.reason


def report_failure(hook: Hook, failure: BaseException) -> None:
    """Say that a hook failed for good, or that nobody waits for it any longer."""
    event(
        logging.ERROR,
        "jobs.on-settled.failed",
        id=hook.row.id,
        name=hook.spec.name,
        code=OnSettledFailed.code,
        error=type(failure).__name__,
    )


def _call(hook: Hook) -> None:
    value, org = _input(hook)
    told: Settled[Any] = Settled(
        outcome=hook.outcome,
        job_id=hook.row.id,
        run_id=hook.row.run_id,
        attempt=hook.row.attempt,
        input=value,
        result=hook.result,
        error=hook.error,
        code=hook.code,
        signal=hook.token,
    )
    with in_tenant(org):
        hook.call(told)


def _input(hook: Hook) -> tuple[Any, str | None]:
    try:
        value = hook.spec.schema.parse(loads(hook.row.input))
        return value, tenant_of(hook.spec, value)
    except JobsError:
        return None, None
