"""A batch on its way into a table: its parameters, and what the statements answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from ultimate_jobs.core.records import Batch, Enqueued, NewJob
from ultimate_jobs.drivers.postgres.connection import Row
from ultimate_jobs.errors import DriverUnavailable

STAGING_LOCK = 0x785F6A62
"""Class of the advisory locks by which a transaction says that it has staged something."""

Answers = Mapping[UUID, Enqueued]
"""What was said of jobs, by the id that each was to have."""

_ROUNDS = 10


def parameters(batch: Batch, jobs: Sequence[NewJob]) -> dict[str, object]:
    """Name what staging and publishing have in common; one job alone has a statement of its own."""
    shared: dict[str, object] = {
        "staging_lock": STAGING_LOCK,
        "name": batch.name,
        "queue": batch.queue,
        "priority": batch.priority,
        "max_attempts": batch.max_attempts,
        "run_at": batch.run_at,
        "delay": batch.delay,
        "tenant_id": batch.tenant_id,
        "traceparent": batch.traceparent,
        "enqueued_by": batch.enqueued_by,
        "related_type_id": batch.related_type_id,
        "related_id": batch.related_id,
    }
    return shared | (_of_one(jobs[0]) if len(jobs) == 1 else _of_many(jobs))


def _of_one(job: NewJob) -> dict[str, object]:
    return {
        "id": job.id,
        "run_id": job.run_id,
        "idempotency_key": job.idempotency_key,
        "input": job.input,
        "lease_key": job.lease_key,
    }


def _of_many(jobs: Sequence[NewJob]) -> dict[str, object]:
    lease_keys = [job.lease_key for job in jobs]
    return {
        "ids": array(job.id.hex for job in jobs),
        "run_ids": array(job.run_id.hex for job in jobs),
        "keys": array(job.idempotency_key for job in jobs),
        "inputs": array(job.input for job in jobs),
        "lease_keys": lease_keys if any(lease_keys) else None,
    }


def array(texts: Iterable[str]) -> str:
    """Write an array's literal in one go, for any type: a thousand elements cost what a dozen calls do.

    No text holds U+0000, which stands for the commas meanwhile.
    """
    joined = "\0".join(texts).replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
    return f'{{"{joined}"}}'


def answer_of(jobs: Sequence[NewJob], rows: Sequence[Row]) -> Answers:
    """Read what a statement for one job answered; nothing, when nothing can be said yet."""
    return {jobs[0].id: Enqueued(*rows[0][:3])} if rows else {}


def answers_of(jobs: Sequence[NewJob], rows: Sequence[Row]) -> Answers:
    """Read what a statement for many answered: it names those that were not written."""
    others = {asked: (job_id, run_id) for asked, job_id, run_id in rows}
    written = (job for job in jobs if job.id not in others)
    found = {job.id: Enqueued(job.id, job.run_id, deduped=False) for job in written}
    for asked, (job_id, run_id) in others.items():
        if job_id is not None:
            found[asked] = Enqueued(job_id, run_id, deduped=True)
    return found


def answered(batch: Batch, write: Callable[[Sequence[NewJob]], Answers]) -> list[Enqueued]:
    """Write a batch until every job has an answer.

    A job has none when its key was held by a row that this statement's snapshot does not see yet:
    a statement started now sees it, or finds the key free.

    Raises:
        DriverUnavailable: the key changed hands at every try.

    """
    found: dict[UUID, Enqueued] = {}
    open_jobs: Sequence[NewJob] = batch.jobs
    for _ in range(_ROUNDS):
        found |= write(open_jobs)
        open_jobs = [job for job in batch.jobs if job.id not in found]
        if not open_jobs:
            return [found[job.id] for job in batch.jobs]
    raise DriverUnavailable(f"A key of '{batch.name}' changed hands {_ROUNDS} times in a row.")
