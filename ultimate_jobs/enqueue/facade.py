"""The one enqueue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.records import Batch, Enqueued
from ultimate_jobs.core.spec import JobSpec
from ultimate_jobs.drivers.base import Driver, Unreachable
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue import handles
from ultimate_jobs.enqueue.options import Options
from ultimate_jobs.enqueue.record import Prepared, prepare
from ultimate_jobs.errors import (
    DriverUnavailable,
    EnqueueBatchTooLarge,
    InvariantError,
    LiveKeyTaken,
    OutboxNoTransaction,
    OutboxWrongDatabase,
)
from ultimate_jobs.process.cancel import refuse_if_cancelled

ENQUEUE_CHUNK = 1_000
MAX_ENQUEUE_BATCH = 10_000

Enqueued.endings = handles


def enqueue(spec: JobSpec, value: Any, options: Options) -> Enqueued:
    """Enqueue one input; ``definitions.job.Job.enqueue`` says what that means."""
    (answer,) = _write(prepare(spec, [value], options), options)
    if answer.deduped and options.on_conflict == "error":
        raise LiveKeyTaken(
            f"A live job of '{spec.name}' holds this key: {answer.id}.", meta={"id": answer.id}
        )
    return answer


def enqueue_many(spec: JobSpec, values: Sequence[Any], options: Options) -> list[Enqueued]:
    """Enqueue a batch; ``definitions.job.Job.enqueue_many`` says what that means."""
    if len(values) > MAX_ENQUEUE_BATCH:
        raise EnqueueBatchTooLarge(
            f"{len(values):,} inputs in one call; the limit is {MAX_ENQUEUE_BATCH:,}."
        )
    if options.run_id is not None:
        raise InvariantError("A batch cannot carry one run_id.")
    if options.on_conflict != "dedupe":
        raise InvariantError("A batch can only deduplicate: on_conflict must be 'dedupe'.")
    if not values:
        return []
    return _write(prepare(spec, values, options), options)


def enqueue_each(entries: Sequence[tuple[JobSpec, Any]], options: Options) -> list[Enqueued]:
    """Enqueue inputs of different jobs in their order; refusals come before the first write."""
    prepared = [prepare(spec, [value], options) for spec, value in entries]
    return [answer for one in prepared for answer in _write(one, options)]


def _write(prepared: Prepared, options: Options) -> list[Enqueued]:
    driver = get_driver()
    write = _way(driver, options)
    answers: list[Enqueued] = []
    for chunk in _chunks(prepared.batch):
        refuse_if_cancelled()
        try:
            answers += write(chunk)
        except Unreachable as error:
            raise DriverUnavailable("The database that holds the jobs did not answer.") from error
    return _by_input(prepared, answers)


def _way(driver: Driver, options: Options) -> Callable[[Batch], list[Enqueued]]:
    """Choose between staging in the open transaction and publishing at once."""
    ours = get_settings().database
    if options.using is not None and options.using != ours:
        raise OutboxWrongDatabase(f"using= names another database than the outbox's, '{ours}'.")
    if not options.outbox:
        return driver.queue.enqueue_apart
    if driver.outbox.in_transaction():
        return driver.outbox.stage
    if driver.outbox.in_foreign_transaction():
        raise OutboxWrongDatabase(
            f"The open transaction is on another database than the outbox's, '{ours}'."
        )
    if get_settings().outbox == "required":
        raise OutboxNoTransaction("The enqueue is outside a transaction, and OUTBOX is 'required'.")
    return driver.queue.enqueue


def _chunks(batch: Batch) -> Iterator[Batch]:
    if len(batch.jobs) <= ENQUEUE_CHUNK:
        yield batch
        return
    for start in range(0, len(batch.jobs), ENQUEUE_CHUNK):
        yield replace(batch, jobs=batch.jobs[start : start + ENQUEUE_CHUNK])


def _by_input(prepared: Prepared, answers: Sequence[Enqueued]) -> list[Enqueued]:
    """Answer every input; a later one with a key of the batch is deduplicated onto the first."""
    if len(answers) == len(prepared.places):
        return list(answers)
    seen: set[int] = set()
    parallel: list[Enqueued] = []
    for place in prepared.places:
        answer = answers[place]
        parallel.append(replace(answer, deduped=True) if place in seen else answer)
        seen.add(place)
    return parallel
