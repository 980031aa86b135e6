"""Compensation: undo what a run did, the last thing first, once each."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from ultimate_jobs.core.failure import MAX_ERROR_CHARS, describe
from ultimate_jobs.core.jsonform import loads, storable_text
from ultimate_jobs.core.records import ClaimedJob
from ultimate_jobs.core.replay import COMPENSATE, UNWINDING, StepRecord, StepStatus
from ultimate_jobs.core.settlement import Failed, Outcome, UnwindFailed, Unwound
from ultimate_jobs.errors import CompensationFailed, RateLimited
from ultimate_jobs.process.cancel import CancelToken
from ultimate_jobs.steps.runner import Compensation, StepRunner, wants_signal

LAPSED = Failed(
    error="X_JOB_LEASE_LOST: The lease lapsed on the last attempt.", code="X_JOB_LEASE_LOST"
)
"""The failure of a run whose worker died on its last attempt."""


def original_of(steps: StepRunner, job: ClaimedJob, attempts: int) -> Failed | None:
    """Answer the failure that a run unwinds for; ``None`` when it does not unwind.

    It does once the step ``unwinding`` is stored, and when its attempts are spent already: then
    the last one was cut short, by the death of its worker or by its deadline.
    """
    record = steps.record(UNWINDING)
    if record is not None:
        return _load(record)
    if job.attempt > attempts:
        return Failed(error=job.last_error, code=None) if job.last_error else LAPSED
    return None


def unwind(
    steps: StepRunner,
    original: Failed,
    token: CancelToken,
    finish: Callable[[Awaitable[object]], object],
) -> Outcome:
    """Undo every registered step, newest first, skipping what is undone already.

    That the run unwinds is stored before the first compensation: from then on the forward path
    never resumes. ``finish`` waits for what an async compensation answers.

    Raises:
        RateLimited: a compensation has to wait; it is called again.

    """
    if not steps.compensations and steps.in_doubt is None and not steps.forgotten():
        return Unwound(original)
    token.raise_if_aborted()
    if steps.record(UNWINDING) is None:
        steps.completed(steps.open_internal(UNWINDING), _dump(original))
    if steps.in_doubt is not None:
        return _stuck(f"The outcome of the step '{steps.in_doubt}' is not known.", original)
    missed = steps.forgotten()
    if missed:
        names = ", ".join(f"'{name}'" for name in missed)
        return UnwindFailed(
            failed=_both(str(CompensationFailed(f"The replay did not reach {names}.")), original)
        )
    for compensation in reversed(steps.compensations):
        token.raise_if_aborted()
        failure = _undo(steps, compensation, original, token, finish)
        if failure is not None:
            return failure
    return Unwound(original)


def failed_over(error: BaseException, original: Failed) -> Failed:
    """Write down what cut an unwind short, with the failure it unwinds for."""
    return _both(describe(error), original)


def _undo(
    steps: StepRunner,
    compensation: Compensation,
    original: Failed,
    token: CancelToken,
    finish: Callable[[Awaitable[object]], object],
) -> UnwindFailed | None:
    name = COMPENSATE + compensation.step
    record = steps.record(name)
    if record is not None and record.status is StepStatus.COMPLETED:
        return None
    opened = steps.open_internal(name)
    signal = {"signal": token} if wants_signal(compensation.undo) else {}
    try:
        answer = compensation.undo(compensation.output, **signal)
        if inspect.isawaitable(answer):
            finish(answer)
    except RateLimited:
        token.raise_if_aborted()
        raise
    except Exception as error:  # noqa: BLE001 - a compensation may raise anything
        token.raise_if_aborted()
        steps.failed(opened, error)
        failed = CompensationFailed(f"The compensation of the step '{compensation.step}' failed.")
        return UnwindFailed(failed=_both(f"{failed}\n{describe(error)}", original))
    steps.completed(opened, None)
    return None


def _stuck(cause: str, original: Failed) -> UnwindFailed:
    return UnwindFailed(failed=_both(str(CompensationFailed(cause)), original), final=True)


def _both(error: str, original: Failed) -> Failed:
    text = f"{error}\n\nThe run had failed with: {original.error}"
    return Failed(
        error=storable_text(text, MAX_ERROR_CHARS),
        code=CompensationFailed.code,
        kind=CompensationFailed.__name__,
    )


def _dump(failed: Failed) -> dict[str, str | None]:
    return {"error": failed.error, "code": failed.code, "retry": failed.retry}


def _load(record: StepRecord) -> Failed:
    stored = loads(record.output or "null")
    kept = stored if isinstance(stored, dict) else {}
    error, code = kept.get("error"), kept.get("code")
    return Failed(
        error=error if isinstance(error, str) else LAPSED.error,
        code=code if isinstance(code, str) else None,
        retry="terminal" if kept.get("retry") == "terminal" else None,
    )
