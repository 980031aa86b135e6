"""What an operator does to a job: one winner each, decided in the database."""

from __future__ import annotations

import json

from ultimate_jobs.core.jsonform import NotStorable, canonical, dumps, storable_text
from ultimate_jobs.core.replay import is_reserved
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import (
    InvariantError,
    JobNotCancellable,
    JobNotRequeueable,
    JobUnknown,
    LiveKeyTaken,
    StepNotResolvable,
)
from ultimate_jobs.operate.inspection import job_uuid

MAX_REASON_CHARS = 2_000


def cancel_job(job_id: str, reason: str | None = None) -> None:
    """Cancel a live job. Accepted, it is final: nothing retries it, nothing is compensated.

    A body that runs is told at its worker's next sign of life; what it writes through this
    package is refused at once.

    Raises:
        JobNotCancellable: the job has ended, or there is none.

    """
    text = None if reason is None else storable_text(reason, MAX_REASON_CHARS)
    if not get_driver().operator.cancel(job_uuid(job_id), text):
        raise JobNotCancellable("The job has ended, or there is no such job.")


def retry_job(job_id: str, from_step: str | None = None) -> None:
    """Make a finished job due now, with all its attempts; finished steps are not repeated.

    Args:
        job_id: the job.
        from_step: also forget this step and every later one, so that they run again.

    Raises:
        JobUnknown: no such job.
        JobNotRequeueable: the job is live, or a step before ``from_step`` has been undone.
        LiveKeyTaken: a live job holds its key.
        StepNotResolvable: the run has no step of that name.

    """
    if from_step is not None and is_reserved(from_step):
        raise StepNotResolvable("A retry starts at a step of the body, not at one of the unwind.")
    done = get_driver().operator.requeue(job_uuid(job_id), from_step)
    if done.moved:
        return
    if done.state is None:
        raise JobUnknown("No job has this id.")
    if done.holder is not None:
        raise LiveKeyTaken(
            f"A live job holds the same key: {done.holder}.", meta={"id": done.holder}
        )
    if from_step is not None and not done.step_known:
        raise StepNotResolvable("The run has no step of this name.")
    if done.undone:
        raise JobNotRequeueable(
            "A step before this one has been undone, and the run would go on as if it had not.",
            fix="Retry from the first step that was undone, or without a step.",
        )
    raise JobNotRequeueable(f"The job is {done.state}.")


def resolve_step(job_id: str, step: str, *, ran: bool, output: str | None = None) -> None:
    """Say how an at-most-once step ended that nobody else can know about.

    Args:
        job_id: the job.
        step: the step's name.
        ran: whether its function took effect; if not, the step may run.
        output: what it would have answered, as JSON text; ``null`` by default.

    Raises:
        InvariantError: the output is no JSON that can be stored.
        StepNotResolvable: no such step is in doubt, or the job is running.

    """
    stored = _output(output) if ran else None
    if not get_driver().operator.resolve_step(job_uuid(job_id), step, ran=ran, output=stored):
        raise StepNotResolvable("No step of this name is in doubt, or the job is running.")


def _output(text: str | None) -> str:
    try:
        return dumps(canonical(json.loads(text or "null")))
    except (ValueError, NotStorable):
        raise InvariantError("--output is no JSON that can be stored.") from None
