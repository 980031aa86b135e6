"""What an operator does to a job: one winner each, decided in the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.jsonform import NotStorable, canonical, dumps, storable_text
from ultimate_jobs.core.records import Requeue
from ultimate_jobs.core.replay import is_reserved
from ultimate_jobs.core.selection import Moved
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import (
    InvariantError,
    JobNotCancellable,
    JobNotPromotable,
    JobNotRemovable,
    JobNotRequeueable,
    JobsError,
    JobUnknown,
    LiveKeyTaken,
    StepNotResolvable,
)
from ultimate_jobs.models import Job
from ultimate_jobs.operate.search import job_uuid
from ultimate_jobs.tenancy import current_actor

MAX_REASON_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What an operator did: the verb, the jobs it moved, who did it and why; for an audit line."""

    verb: str
    jobs: tuple[UUID, ...] = ()
    by: str | None = None
    reason: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def whoever(by: str | None) -> str | None:
    """Answer who acts: the one named, or else the actor at work."""
    actor = current_actor()
    return by if by is not None or actor is None else actor.id


def cancel_job(job_id: str, reason: str | None = None, *, by: str | None = None) -> Act:
    """Cancel a live job. Accepted, it is final: nothing retries it, nothing is compensated.

    A body that runs is told at its worker's next sign of life; what it writes through this
    package is refused at once.

    Raises:
        JobNotCancellable: the job has ended, or there is none.

    """
    job = job_uuid(job_id)
    text = kept_reason(reason)
    if not get_driver().operator.cancel(job, text):
        raise JobNotCancellable("The job has ended, or there is no such job.")
    return Act(verb="cancel", jobs=(job,), by=whoever(by), reason=text)


def kept_reason(reason: str | None) -> str | None:
    """Cut a reason to what is kept of it."""
    return None if reason is None else storable_text(reason, MAX_REASON_CHARS)


def promote_job(job_id: str, *, by: str | None = None) -> Act:
    """Make a job due now that waits for its time, a retry's wait included.

    Raises:
        JobUnknown: no such job.
        JobNotPromotable: it does not wait for its time.

    """
    job = job_uuid(job_id)
    _moved(job, get_driver().operator.promote_many, JobNotPromotable)
    return Act(verb="promote", jobs=(job,), by=whoever(by))


def remove_job(job_id: str, *, by: str | None = None) -> Act:
    """Remove a job that does not run, with its steps. Nothing is left of it.

    Raises:
        JobUnknown: no such job.
        JobNotRemovable: it is running.

    """
    job = job_uuid(job_id)
    _moved(job, get_driver().operator.remove_many, JobNotRemovable)
    return Act(verb="remove", jobs=(job,), by=whoever(by))


def _moved(
    job: UUID,
    move: Callable[[Sequence[UUID], int], Moved],
    refusal: type[JobNotPromotable | JobNotRemovable],
) -> None:
    if move([job], 1).jobs:
        return
    rows = Job.objects.using(get_settings().database)
    state = rows.filter(id=job).values_list("state", flat=True).first()
    if state is None:
        raise JobUnknown("No job has this id.")
    raise refusal(f"The job is {state}.")


def retry_job(job_id: str, from_step: str | None = None, *, by: str | None = None) -> Act:
    """Make a finished job due now, with all its attempts; finished steps are not repeated.

    Args:
        job_id: the job.
        from_step: also forget this step and every later one, so that they run again.
        by: who does it, for the record; the actor at work by default.

    Raises:
        JobUnknown: no such job.
        JobNotRequeueable: the job is live, or a step before ``from_step`` has been undone.
        LiveKeyTaken: a live job holds its key.
        StepNotResolvable: the run has no step of that name.

    """
    if from_step is not None and is_reserved(from_step):
        raise StepNotResolvable("A retry starts at a step of the body, not at one of the unwind.")
    job = job_uuid(job_id)
    done = get_driver().operator.requeue(job, from_step)
    if done.moved:
        return Act(verb="retry", jobs=(job,), by=whoever(by), details={"from_step": from_step})
    raise _not_requeued(done, from_step)


def _not_requeued(done: Requeue, from_step: str | None) -> JobsError:
    if done.state is None:
        return JobUnknown("No job has this id.")
    if done.holder is not None:
        return LiveKeyTaken(
            f"A live job holds the same key: {done.holder}.", meta={"id": done.holder}
        )
    if from_step is not None and not done.step_known:
        return StepNotResolvable("The run has no step of this name.")
    if done.undone:
        return JobNotRequeueable(
            "A step before this one has been undone, and the run would go on as if it had not.",
            fix="Retry from the first step that was undone, or without a step.",
        )
    return JobNotRequeueable(f"The job is {done.state}.")


def resolve_step(
    job_id: str, step: str, *, ran: bool, output: str | None = None, by: str | None = None
) -> Act:
    """Say how an at-most-once step ended that nobody else can know about.

    Args:
        job_id: the job.
        step: the step's name.
        ran: whether its function took effect; if not, the step may run.
        output: what it would have answered, as JSON text; ``null`` by default.
        by: who does it, for the record; the actor at work by default.

    Raises:
        InvariantError: the output is no JSON that can be stored.
        StepNotResolvable: no such step is in doubt, or the job is running.

    """
    job = job_uuid(job_id)
    stored = _output(output) if ran else None
    if not get_driver().operator.resolve_step(job, step, ran=ran, output=stored):
        raise StepNotResolvable("No step of this name is in doubt, or the job is running.")
    details = {"step": step, "ran": ran}
    return Act(verb="resolve-step", jobs=(job,), by=whoever(by), details=details)


def _output(text: str | None) -> str:
    try:
        return dumps(canonical(json.loads(text or "null")))
    except (ValueError, NotStorable):
        raise InvariantError("--output is no JSON that can be stored.") from None
