"""One attempt, on a body thread, from the stored input to an outcome."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar, cast

from ultimate_jobs.core import keys
from ultimate_jobs.core.failure import describe, where
from ultimate_jobs.core.jsonform import NotStorable, canonical, dumps, loads
from ultimate_jobs.core.records import Fence
from ultimate_jobs.core.retry import Decided, classify, code_of, retry_after
from ultimate_jobs.core.settlement import (
    Completed,
    Failed,
    Interrupted,
    Outcome,
    UnwindFailed,
    Unwound,
    is_final,
)
from ultimate_jobs.core.spec import JobSpec, NoTenant
from ultimate_jobs.definitions.async_context import AsyncRun
from ultimate_jobs.definitions.context import Run, RunFacts
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import (
    Draining,
    JobTimeout,
    RateLimited,
    ResultUnserializable,
    RetryClass,
    TenantMismatch,
)
from ultimate_jobs.process.cancel import CancelToken, enter, refuse_if_cancelled
from ultimate_jobs.process.log import event
from ultimate_jobs.steps.runner import StepRunner
from ultimate_jobs.steps.suspension import ControlFlow, Suspended
from ultimate_jobs.steps.unwind import failed_over, original_of, unwind
from ultimate_jobs.tenancy import enter_tenant
from ultimate_jobs.worker.held import Held
from ultimate_jobs.worker.loops import Loop

F = TypeVar("F", bound=RunFacts[Any])

_is_async = lru_cache(maxsize=1_000)(inspect.iscoroutinefunction)


def attempt(
    held: Held, driver: Driver, loop: Loop, runner: Callable[..., StepRunner] = StepRunner
) -> Outcome:
    """Run the body once and say how it ended; whatever it raises becomes an outcome.

    The body finds a fresh context: nothing an earlier one set on the thread reaches it. ``runner``
    builds the runner of its steps.
    """
    way = _Attempt(held, driver, loop, runner)
    outcome: Outcome
    try:
        driver.start_of_body(refuse_if_cancelled)
        outcome = Context().run(way.run)
    except BaseException as error:  # noqa: BLE001 - SystemExit and its kind are failures of a body
        way.raised, outcome = error, outcome_of(error, held.token)
    tidy(driver, held.facts)
    if not held.flight.flying:
        _report_late(held, way.raised)
    return outcome


def outcome_of(error: BaseException, token: CancelToken) -> Outcome:
    """Read an exception: the state of the token decides before the exception does."""
    match token.reason:
        case Draining():
            return Interrupted()
        case JobTimeout() as reason:
            return failed(reason)
        case _:
            return failed(error)


def failed(error: BaseException) -> Failed:
    """Write an exception down as a failure."""
    if isinstance(error, Decided):
        retry: RetryClass = "terminal" if error.wait is None else "retry-after"
        return replace(failed(error.error), retry=retry, retry_after=error.wait)
    kind = type(error).__qualname__
    try:
        return Failed(
            error=describe(error),
            code=code_of(error),
            retry=classify(error),
            retry_after=retry_after(error),
            kind=kind,
            place=where(error),
        )
    except Exception:  # noqa: BLE001 - an exception that defends itself is a failure all the same
        return Failed(error=f"{kind}: (it cannot be described)", kind=kind)


def tenant_of(spec: JobSpec, value: Any) -> str | None:
    """Answer the tenant an input belongs to."""
    return None if isinstance(spec.tenant, NoTenant) else keys.tenant(spec.name, spec.tenant, value)


class _Attempt:
    """The way through one attempt: forward, and back when the run has failed for good."""

    __slots__ = (
        "_attempts",
        "_driver",
        "_held",
        "_job",
        "_loop",
        "_runner",
        "_spec",
        "_token",
        "raised",
    )

    def __init__(
        self, held: Held, driver: Driver, loop: Loop, runner: Callable[..., StepRunner]
    ) -> None:
        self.raised: BaseException | None = None
        self._loop = loop
        self._runner = runner
        self._held = held
        self._job = held.job
        self._spec = held.spec
        self._token = held.token
        self._driver = driver
        self._attempts = held.spec.attempts_of(held.job.max_attempts)

    def run(self) -> Outcome:
        """Go forward, unless the run is unwinding already."""
        try:
            value, org = self._input()
        except Exception as error:  # noqa: BLE001 - key functions are the application's
            outcome = outcome_of(error, self._token)
            # Without its input a run cannot be replayed, so it cannot be unwound either.
            hopeless = isinstance(outcome, Failed) and outcome.retry == "terminal"
            if isinstance(outcome, Failed) and hopeless and self._spec.compensates:
                return Unwound(outcome)
            return outcome
        enter(self._token)
        enter_tenant(org)
        original = self._unwinds_for()
        if original is not None:
            return self._back(value, org, original)
        return self._forward(value, org)

    def _input(self) -> tuple[Any, str | None]:
        value = self._spec.schema.parse(loads(self._job.input))
        org = tenant_of(self._spec, value)
        if org is not None and self._job.tenant_id not in (None, org):
            raise TenantMismatch(
                f"'{self._spec.name}': the row belongs to another tenant than its input."
            )
        return value, org

    def _unwinds_for(self) -> Failed | None:
        if not self._spec.compensates or self._job.claim == 1:
            return None
        return original_of(self._steps(), self._job, self._attempts)

    def _forward(self, value: Any, org: str | None) -> Outcome:
        steps = self._steps()
        try:
            result = self._call(steps, value, org)
        except ControlFlow as flow:
            return left(flow)
        except BaseException as error:  # noqa: BLE001 - what fails for good is unwound here
            self.raised = error
            outcome = left(steps.left) if steps.left else outcome_of(error, self._token)
            if isinstance(outcome, Failed) and self._must_unwind(outcome):
                return self._unwound(steps, outcome)
            return outcome
        return self._ended(steps, result)

    def _ended(self, steps: StepRunner, result: str) -> Outcome:
        """Say how a body that returned has ended: it may have swallowed what it was told."""
        reason = self._token.reason
        if steps.left is not None:
            return left(steps.left)
        if steps.refused and reason is not None:
            return outcome_of(reason, self._token)
        return Completed(result)

    def _back(self, value: Any, org: str | None, original: Failed) -> Outcome:
        """Replay the body to learn what there is to undo, then undo it."""
        steps = self._steps(unwinding=True)
        try:
            self._call(steps, value, org)
        except RateLimited as error:
            self._token.raise_if_aborted()
            return failed(error)
        except (Exception, ControlFlow):  # noqa: BLE001 - unwind() finds out what it did not reach
            self._token.raise_if_aborted()
        return self._unwound(steps, original)

    def _unwound(self, steps: StepRunner, original: Failed) -> Outcome:
        try:
            return unwind(steps, original, self._token, self._finished)
        except RateLimited as error:
            return failed(error)
        except Exception as error:  # noqa: BLE001 - an unwind that was cut short goes on later
            self._token.raise_if_aborted()
            return UnwindFailed(failed=failed_over(error, original))

    def _finished(self, awaitable: Awaitable[object]) -> object:
        return self._loop.run(lambda: awaitable, self._token)

    def _must_unwind(self, outcome: Failed) -> bool:
        if not self._spec.compensates or self._token.aborted:
            return False
        return outcome.retry == "terminal" or (
            is_final(self._job.attempt, self._attempts) and outcome.code != RateLimited.code
        )

    def _call(self, steps: StepRunner, value: Any, org: str | None) -> str:
        returned = self._returned(steps, value, org)
        if returned is None:
            return "null"
        try:
            return dumps(canonical(returned))
        except NotStorable as error:
            raise ResultUnserializable(
                f"'{self._spec.name}' returned what has no JSON form: {error}"
            ) from None

    def _returned(self, steps: StepRunner, value: Any, org: str | None) -> object:
        body = self._spec.body
        if _is_async(body):
            run = self._facts(AsyncRun, steps, value, org)
            return self._loop.run(lambda: cast("Awaitable[object]", body(run)), self._token)
        return body(self._facts(Run, steps, value, org))

    def _facts(self, kind: type[F], steps: StepRunner, value: Any, org: str | None) -> F:
        return kind(
            input=value,
            attempt=self._job.attempt,
            job_id=self._job.id,
            run_id=self._job.run_id,
            final_attempt=is_final(self._job.attempt, self._attempts),
            signal=self._token,
            tenant=org,
            report=self._held.report,
            steps=steps,
            ceilings=self._held,
            step_timeout=self._spec.step_timeout,
        )

    def _steps(self, *, unwinding: bool = False) -> StepRunner:
        job = self._job
        return self._runner(
            self._driver.steps,
            Fence(job_id=job.id, run_id=job.run_id, claim=job.claim, worker=self._held.worker),
            self._token,
            self._spec,
            fresh=job.claim == 1,
            since=job.snapshot,
            unwinding=unwinding,
        )


def left(flow: ControlFlow) -> Outcome:
    """Read the control flow that a body was left by."""
    match flow:
        case Suspended(parked=parked):
            return parked
        case _:
            raise flow


def tidy(driver: Driver, facts: Callable[[], dict[str, object]]) -> None:
    """Leave the thread's connections as the next one must find them; report what was left open."""
    try:
        left_open = driver.end_of_body()
    except Exception as error:  # noqa: BLE001 - tidying up must not change how the attempt ended
        event(logging.ERROR, "jobs.body.tidy-failed", error=type(error).__name__, **facts())
        return
    for alias in left_open:
        event(logging.WARNING, "jobs.body.transaction-left-open", alias=alias, **facts())


def _report_late(held: Held, raised: BaseException | None) -> None:
    """Say that a body went on past its abort; one that stopped because of it is not mentioned."""
    if raised is None or raised is not held.token.reason:
        how = "returned" if raised is None else "raised"
        event(logging.WARNING, "jobs.timeout.abandoned", ended=how, **held.facts())
