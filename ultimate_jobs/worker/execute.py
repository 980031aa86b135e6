"""One attempt, on a body thread, from the stored input to an outcome."""

from __future__ import annotations

import logging
from contextvars import Context
from typing import Any

from ultimate_jobs.core import keys
from ultimate_jobs.core.failure import describe, where
from ultimate_jobs.core.jsonform import NotStorable, canonical, dumps, loads
from ultimate_jobs.core.retry import classify, code_of, retry_after
from ultimate_jobs.core.settlement import Completed, Failed, Interrupted, Outcome, is_final
from ultimate_jobs.core.spec import JobSpec, NoTenant
from ultimate_jobs.definitions.context import Run
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.errors import Draining, JobTimeout, ResultUnserializable, TenantMismatch
from ultimate_jobs.process.cancel import CancelToken, under
from ultimate_jobs.process.log import event
from ultimate_jobs.tenancy import in_tenant
from ultimate_jobs.worker.held import Held


def attempt(held: Held, driver: Driver) -> Outcome:
    """Run the body once and say how it ended; whatever it raises becomes an outcome.

    The body finds a fresh context: nothing an earlier one set on the thread reaches it.
    """
    raised: BaseException | None = None
    outcome: Outcome
    try:
        outcome = Completed(Context().run(_run_body, held))
    except BaseException as error:  # noqa: BLE001 - SystemExit and its kind are failures of a body
        raised, outcome = error, outcome_of(error, held.token)
    _tidy(held, driver)
    if not held.flight.flying:
        _report_late(held, raised)
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


def _run_body(held: Held) -> str:
    job, spec = held.job, held.spec
    value = spec.schema.parse(loads(job.input))
    org = tenant_of(spec, value)
    if org is not None and job.tenant_id is not None and job.tenant_id != org:
        raise TenantMismatch(f"'{spec.name}': the row belongs to another tenant than its input.")
    run: Run[Any] = Run(
        input=value,
        attempt=job.attempt,
        job_id=job.id,
        run_id=job.run_id,
        final_attempt=is_final(job.attempt, job.max_attempts),
        signal=held.token,
        tenant=org,
        report=held.report,
    )
    with under(held.token), in_tenant(org):
        returned = spec.body(run)
    try:
        return dumps(canonical(returned))
    except NotStorable as error:
        raise ResultUnserializable(
            f"'{spec.name}' returned what has no JSON form: {error}"
        ) from None


def _tidy(held: Held, driver: Driver) -> None:
    try:
        left_open = driver.end_of_body()
    except Exception as error:  # noqa: BLE001 - tidying up must not change how the attempt ended
        event(logging.ERROR, "jobs.body.tidy-failed", error=type(error).__name__, **held.facts())
        return
    for alias in left_open:
        event(logging.WARNING, "jobs.body.transaction-left-open", alias=alias, **held.facts())


def _report_late(held: Held, raised: BaseException | None) -> None:
    """Say that a body went on past its abort; one that stopped because of it is not mentioned."""
    if raised is None or raised is not held.token.reason:
        how = "returned" if raised is None else "raised"
        event(logging.WARNING, "jobs.timeout.abandoned", ended=how, **held.facts())
