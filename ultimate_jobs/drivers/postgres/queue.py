"""The queue: publishing, claiming, settling, signs of life."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from ultimate_jobs.core.records import (
    Batch,
    BuriedJob,
    ClaimedJob,
    ClaimRequest,
    Claims,
    Enqueued,
    Found,
    HeldClaim,
    Lost,
    NewJob,
    Presence,
    Settling,
)
from ultimate_jobs.core.states import JobState, state_of
from ultimate_jobs.drivers.base import LAPSED_ERROR, UNSURE
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.batches import (
    Answers,
    answer_of,
    answered,
    answers_of,
    array,
    parameters,
)
from ultimate_jobs.drivers.postgres.connection import Database, Row
from ultimate_jobs.drivers.postgres.outbox import PostgresOutbox
from ultimate_jobs.errors import ClaimQueuesEmpty, InvariantError

WAKE_SLOT = timedelta(milliseconds=20)
"""Workers are told of a queue at most so often: whoever heard of it looks again that soon."""

WAKE_PATIENCE = timedelta(milliseconds=250)
"""A due row that has waited for no longer has a worker on its way; no less than ``WAKE_SLOT``."""

_SHARDS = 16

_RUNNING = JobState.RUNNING.value


class PostgresQueue:
    """The table ``x_jobs``."""

    def __init__(self, database: Database, outbox: PostgresOutbox) -> None:
        self._database = database
        self._outbox = outbox

    def enqueue(self, batch: Batch) -> list[Enqueued]:
        """Publish a batch at once."""
        return answered(batch, lambda jobs: self._enqueue(batch, jobs))

    def enqueue_apart(self, batch: Batch) -> list[Enqueued]:
        """Publish a batch at once, outside the transaction that the caller has open."""
        if not self._database.in_transaction():
            return self.enqueue(batch)
        staged_here = self._outbox.staged(batch)
        with self._database.apart():
            if staged_here - self._outbox.staged(batch):
                raise InvariantError(
                    f"The open transaction has staged a job of '{batch.name}' with this key.",
                    fix="Enqueue it once: in the transaction, or with outbox=False before it.",
                )
            return self.enqueue(batch)

    def find(self, job: UUID) -> Found | None:
        """Find what an enqueue has become."""
        inside = self._find(job)
        if not self._database.in_transaction() or (inside is not None and inside.has_ended):
            return inside
        with self._database.apart():
            outside = self._find(job)
        return outside or (inside and replace(inside, committed=False))

    def claim(self, request: ClaimRequest) -> Claims:
        """Take due rows, and bury what lapsed with no attempt left."""
        if not request.queues:
            raise ClaimQueuesEmpty("A claim names no queue.")
        rows = self._database.rows(
            sql.CLAIM,
            {
                "worker": request.worker,
                "queues": list(request.queues),
                "names": list(request.names),
                "room": request.room,
                "shares": list(request.shares),
                "lease": request.lease,
                "reap": request.reap,
                "undead": list(request.undead),
                "ahead": request.ahead,
                "waitable": list(request.waitable),
                "lapsed_error": LAPSED_ERROR,
                "shard": _shard(request.worker),
            },
        )
        claimed = [_claimed(row) for row in rows if row[10] == _RUNNING]
        buried = [_buried(row) for row in rows if row[10] != _RUNNING]
        return Claims(claimed, buried)

    def settle(self, worker: str, endings: Sequence[Settling]) -> set[tuple[UUID, int]]:
        """Write endings and count them; answer the claims that still stood."""
        if not endings:
            return set()
        if all(map(_is_plain, endings)):
            return set(self._database.rows(sql.SETTLE_DONE, _done(worker, endings)))
        return set(self._database.rows(sql.SETTLE, _settling(worker, endings)))

    def heartbeat(
        self, presence: Presence, held: Sequence[HeldClaim], lease: timedelta
    ) -> list[Lost]:
        """Give one sign of life; answer the claims and slots that are no longer held."""
        slots = [h.slot for h in held]
        rows = self._database.rows(
            sql.HEARTBEAT,
            {
                "worker": presence.worker,
                "host": presence.host,
                "pid": presence.pid,
                "queues": list(presence.queues),
                "jobs": list(presence.jobs),
                "concurrency": presence.concurrency,
                "state": presence.state,
                "lease": lease,
                "ids": [h.id for h in held],
                "claims": [h.claim for h in held],
                "lease_keys": [slot.key if slot else None for slot in slots],
                "slots": [slot.number if slot else None for slot in slots],
            },
        )
        return [Lost(HeldClaim(row[0], row[1]), slot_only=not row[2]) for row in rows]

    def farewell(self, worker: str) -> None:
        """Remove a worker's sign of life."""
        self._database.rows(sql.FAREWELL, {"worker": worker})

    def disown(self, worker: str, claims: Sequence[HeldClaim]) -> None:
        """Let go of claims although the worker lives on."""
        self._database.rows(
            sql.DISOWN,
            {"worker": worker, "ids": [c.id for c in claims], "claims": [c.claim for c in claims]},
        )

    def record_progress(self, worker: str, notes: Sequence[tuple[HeldClaim, str]]) -> None:
        """Write progress notes."""
        self._database.rows(
            sql.PROGRESS,
            {
                "worker": worker,
                "ids": [held.id for held, _ in notes],
                "claims": [held.claim for held, _ in notes],
                "progress": [note for _, note in notes],
            },
        )

    def _find(self, job: UUID) -> Found | None:
        for name, state, result, error in self._database.rows(sql.FIND, {"id": job}):
            return Found(name, None if state is None else state_of(state), result, error)
        return None

    def _enqueue(self, batch: Batch, jobs: Sequence[NewJob]) -> Answers:
        found = self._publish(batch, jobs)
        if found:
            return found
        # Either an open transaction has staged keys that this statement cannot see, or every key
        # is held by a row too new for its snapshot. Going through the outbox waits for both.
        try:
            return self._database.transact(lambda: self._enqueue_through_outbox(batch, jobs))
        except _OvertakenError:
            return {}

    def _publish(self, batch: Batch, jobs: Sequence[NewJob]) -> Answers:
        words = {"wake_slot": WAKE_SLOT, "wake_patience": WAKE_PATIENCE}
        params = parameters(batch, jobs) | words
        if len(jobs) == 1:
            return answer_of(jobs, self._database.rows(sql.ENQUEUE_ONE, params, repeated=True))
        return answers_of(jobs, self._database.rows(sql.ENQUEUE, params, repeated=True))

    def _enqueue_through_outbox(self, batch: Batch, jobs: Sequence[NewJob]) -> Answers:
        staged = self._outbox.stage(replace(batch, jobs=jobs))
        ours = [answer.id for answer in staged if not answer.deduped]
        if self._outbox.publish(ours) != len(ours):
            raise _OvertakenError
        return {job.id: answer for job, answer in zip(jobs, staged, strict=True)}


class _OvertakenError(Exception):
    """A job with one of the keys appeared between staging and publishing: look again."""


def _settling(worker: str, endings: Sequence[Settling]) -> dict[str, object]:
    parked = [e.settlement.parked for e in endings]
    slots = [e.slot for e in endings]
    return {
        "worker": worker,
        "shard": _shard(worker),
        "ids": [e.id for e in endings],
        "claims": [e.claim for e in endings],
        "states": [e.settlement.state.value for e in endings],
        "counted": [e.settlement.counted for e in endings],
        "in_place": [e.settlement.in_place for e in endings],
        "waits": [e.settlement.wait for e in endings],
        "untils": [e.settlement.until for e in endings],
        "polls": [UNSURE if e.settlement.poll else None for e in endings],
        "errors": [e.settlement.error for e in endings],
        "results": [e.settlement.result for e in endings],
        "progress": [e.progress for e in endings],
        "done": [e.settlement.tally.done for e in endings],
        "retried": [e.settlement.tally.retried for e in endings],
        "failed": [e.settlement.tally.failed for e in endings],
        "dead": [e.settlement.tally.dead for e in endings],
        "duration_ms": [round(e.seconds * 1000) for e in endings],
        "steps": [step.name if step else None for step in parked],
        "step_positions": [step.position if step else None for step in parked],
        "step_statuses": [step.status.value if step else None for step in parked],
        "step_events": [step.event if step else None for step in parked],
        "step_matches": [step.match if step else None for step in parked],
        "lease_keys": [slot.key if slot else None for slot in slots],
        "slots": [slot.number if slot else None for slot in slots],
    }


def _done(worker: str, endings: Sequence[Settling]) -> dict[str, object]:
    """Write endings of jobs that are done; what all of them return is sent once."""
    results = [e.settlement.result for e in endings]
    same = results[0] if results.count(results[0]) == len(results) else None
    return {
        "worker": worker,
        "shard": _shard(worker),
        "ids": array(e.id.hex for e in endings),
        "claims": array(str(e.claim) for e in endings),
        "duration_ms": array(str(round(e.seconds * 1000)) for e in endings),
        "results": results if same is None else None,
        "result": same,
    }


def _is_plain(ending: Settling) -> bool:
    """Answer whether a job was done and leaves nothing but a result."""
    settlement = ending.settlement
    return (
        settlement.state is JobState.DONE
        and settlement.tally.done == 1
        and settlement.error is None
        and ending.progress is None
        and ending.slot is None
    )


def _claimed(row: Row) -> ClaimedJob:
    return ClaimedJob(
        id=row[0],
        claim=row[1],
        name=row[2],
        queue=row[3],
        input=row[4],
        run_id=row[5],
        attempt=row[6],
        max_attempts=row[7],
        tenant_id=row[8],
        traceparent=row[9],
        last_error=row[11],
        snapshot=row[12],
    )


def _buried(row: Row) -> BuriedJob:
    return BuriedJob(
        id=row[0],
        name=row[2],
        queue=row[3],
        input=row[4],
        run_id=row[5],
        attempt=row[6],
        tenant_id=row[8],
        state=state_of(row[10]),
        last_error=row[11],
    )


def _shard(worker: str) -> int:
    return zlib.crc32(worker.encode()) % _SHARDS
