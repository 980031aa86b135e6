"""Jobs: enqueued, claimed, settled, kept alive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import takewhile
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
    Presence,
    Settling,
    Tally,
)
from ultimate_jobs.core.states import JobState, state_of
from ultimate_jobs.drivers.base import LAPSED_ERROR
from ultimate_jobs.drivers.memory import rules
from ultimate_jobs.drivers.memory.following import Session
from ultimate_jobs.drivers.memory.jsonb import jsonb
from ultimate_jobs.drivers.memory.rows import JobRow, LeaseRow, WorkerRow
from ultimate_jobs.drivers.memory.settling import settle
from ultimate_jobs.drivers.memory.store import Statement
from ultimate_jobs.errors import ClaimQueuesEmpty, DriverUnavailable, InvariantError

MAX_ERROR_CHARS = 16_384
MOST_BURIED = 1_000
FORGOTTEN = timedelta(days=1)
"""A worker that has given no sign of life for so long is no longer listed."""


class MemoryQueue:
    """The jobs."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def enqueue(self, batch: Batch) -> list[Enqueued]:
        """Publish a batch at once."""
        return self._session.run(lambda statement: _enqueue(statement, batch))

    def enqueue_apart(self, batch: Batch) -> list[Enqueued]:
        """Publish a batch at once, outside the transaction that the caller has open."""
        if self._session.sessions.current() is None:
            return self.enqueue(batch)
        staged_here = self._session.run(lambda statement: _staged(statement, batch))
        if staged_here - self._session.run_apart(lambda statement: _staged(statement, batch)):
            raise InvariantError(
                f"The open transaction has staged a job of '{batch.name}' with this key.",
                fix="Enqueue it once: in the transaction, or with outbox=False before it.",
            )
        return self._session.run_apart(lambda statement: _enqueue(statement, batch))

    def find(self, job: UUID) -> Found | None:
        """Find what an enqueue has become."""
        inside = self._session.run(lambda statement: _find(statement, job))
        if inside is not None and inside.has_ended:
            return inside
        outside = self._session.run_apart(lambda statement: _find(statement, job))
        return outside or (inside and replace(inside, committed=False))

    def claim(self, request: ClaimRequest) -> Claims:
        """Take due rows, and bury what lapsed with no attempt left."""
        if not request.queues:
            raise ClaimQueuesEmpty("A claim names no queue.")
        return self._session.run(lambda statement: _claim(statement, request))

    def settle(self, worker: str, endings: Sequence[Settling]) -> set[tuple[UUID, int]]:
        """Write endings and count them; answer the claims that still stood."""
        return self._session.run(lambda statement: settle(statement, worker, endings))

    def heartbeat(
        self, presence: Presence, held: Sequence[HeldClaim], lease: timedelta
    ) -> list[Lost]:
        """Give one sign of life; answer the claims and slots that are no longer held."""
        return self._session.run(lambda statement: _heartbeat(statement, presence, held, lease))

    def farewell(self, worker: str) -> None:
        """Remove a worker's sign of life."""

        def remove(statement: Statement) -> None:
            row = statement.get(statement.tables.workers, worker)
            if row is not None:
                statement.remove(statement.tables.workers, row)

        self._session.run(remove)

    def disown(self, worker: str, claims: Sequence[HeldClaim]) -> None:
        """Let go of claims although the worker lives on."""

        def let_go(statement: Statement) -> None:
            for claim in claims:
                row = rules.standing(statement, claim.id, claim.claim, worker)
                if row is not None:
                    _disown(statement, row)

        self._session.run(let_go)

    def record_progress(self, worker: str, notes: Sequence[tuple[HeldClaim, str]]) -> None:
        """Write progress notes."""

        def note(statement: Statement) -> None:
            for held, text in notes:
                row = rules.standing(statement, held.id, held.claim, worker)
                if row is not None:
                    statement.put(statement.tables.jobs, replace(row, progress=jsonb(text)))

        self._session.run(note)


# Enqueue


def _enqueue(statement: Statement, batch: Batch) -> list[Enqueued]:
    found: dict[UUID, Enqueued] = {}
    for job in sorted(batch.jobs, key=lambda job: job.idempotency_key):
        statement.hold((rules.KEY, rules.namespace(batch, job)))
        staged = rules.staged_row(statement, rules.namespace(batch, job))
        if staged is not None:
            found[job.id] = Enqueued(staged.id, staged.run_id, deduped=True)
            continue
        columns = rules.asked(batch, job, statement.now)
        row = _new(columns, statement)
        found[job.id] = (
            Enqueued(row.id, row.run_id, deduped=False)
            if rules.insert_job(statement, row)
            else _held_by(statement, row)
        )
    return [found[job.id] for job in batch.jobs]


def _new(columns: dict[str, object], statement: Statement) -> JobRow:
    row = JobRow(**columns, state="", created_at=statement.now, updated_at=statement.now)  # type: ignore[arg-type]
    return replace(row, state=rules.state_at(row.run_at, statement.now).value)


def _held_by(statement: Statement, row: JobRow) -> Enqueued:
    live = rules.live_job(statement, row.namespace)
    if live is None:
        raise DriverUnavailable(f"The id of a job of '{row.name}' is that of an older job.")
    return Enqueued(live.id, live.run_id, deduped=True)


def _staged(statement: Statement, batch: Batch) -> set[UUID]:
    keys = [rules.namespace(batch, job) for job in batch.jobs]
    return {row.id for key in keys for row in [rules.staged_row(statement, key)] if row is not None}


def _find(statement: Statement, wanted: UUID) -> Found | None:
    tables = statement.tables
    staged = statement.get(tables.outbox, wanted)
    if staged is not None and staged.published_at is None:
        return Found(staged.name, None)
    answers = staged.job_id if staged is not None else None
    job = statement.get(tables.jobs, answers or wanted)
    return None if job is None else Found(job.name, state_of(job.state), job.result, job.last_error)


# Claim


def _claim(statement: Statement, request: ClaimRequest) -> Claims:
    lanes = {
        queue: share
        for queue, share in zip(request.queues, request.shares, strict=True)
        if not rules.is_paused(statement, "queue", queue)
    }
    lapsed = _lapsed(statement, request, lanes) if request.reap else []
    spent = [row for row in lapsed if row.attempt >= row.max_attempts][:MOST_BURIED]
    again = [row for row in lapsed if row.attempt < row.max_attempts]
    turns: list[tuple[int, int, JobRow]] = []
    for place, (queue, share) in enumerate(lanes.items()):
        first = sorted((row for row in again if row.queue == queue), key=rules.in_turn)
        then = sorted(_due(statement, request, queue), key=rules.in_turn)
        turns += [(turn, place, row) for turn, row in enumerate([*first, *then][:share])]
    line = [row for _, _, row in sorted(turns, key=lambda turn: turn[:2])]
    behind = line[request.room : request.room + request.ahead]
    waiting = takewhile(lambda row: _may_wait(request, row), behind)
    claimed = sorted([*line[: request.room], *waiting], key=rules.in_turn)
    return Claims(
        [_take(statement, request, row) for row in claimed],
        [_bury(statement, request, row) for row in sorted(spent, key=rules.in_turn)],
    )


def _may_wait(request: ClaimRequest, row: JobRow) -> bool:
    return (
        row.state != JobState.RUNNING.value
        and row.attempt == 0
        and row.max_attempts > 1
        and row.name in request.waitable
    )


def _due(statement: Statement, request: ClaimRequest, queue: str) -> Iterable[JobRow]:
    jobs, names = statement.tables.jobs, set(request.names)
    return (
        row
        for row in statement.find(jobs, "claimable", queue)
        if row.run_at <= statement.now and row.name in names and statement.is_free(jobs, row)
    )


def _lapsed(statement: Statement, request: ClaimRequest, lanes: dict[str, int]) -> list[JobRow]:
    jobs, names = statement.tables.jobs, set(request.names)
    found = [
        row
        for row in statement.find(jobs, "state", JobState.RUNNING.value)
        if row.queue in lanes
        and row.name in names
        and row.visible_at is not None
        and row.visible_at <= statement.now
        and not _lives(statement, row.claimed_by)
        and statement.is_free(jobs, row)
    ]
    return sorted(found, key=lambda row: (row.visible_at, row.id))


def _lives(statement: Statement, worker: str | None) -> bool:
    row = None if worker is None else statement.get(statement.tables.workers, worker)
    return row is not None and row.expires_at > statement.now


def _take(statement: Statement, request: ClaimRequest, row: JobRow) -> ClaimedJob:
    now = replace(
        row,
        state=JobState.RUNNING.value,
        attempt=row.attempt + 1,
        claim=row.claim + 1,
        claimed_by=request.worker,
        visible_at=statement.now + request.lease,
        updated_at=statement.now,
    )
    statement.put(statement.tables.jobs, now)
    return ClaimedJob(
        id=now.id,
        claim=now.claim,
        name=now.name,
        queue=now.queue,
        input=now.input,
        run_id=now.run_id,
        attempt=now.attempt,
        max_attempts=now.max_attempts,
        tenant_id=now.tenant_id,
        traceparent=now.traceparent,
        last_error=now.last_error,
        snapshot=str(statement.snapshot),
    )


def _bury(statement: Statement, request: ClaimRequest, row: JobRow) -> BuriedJob:
    state = JobState.FAILED if row.name in request.undead else JobState.DEAD
    before = [] if row.last_error is None else [row.last_error]
    error = "\n\nThe attempt before had failed with: ".join([LAPSED_ERROR, *before])
    now = replace(
        row,
        state=state.value,
        last_error=error[:MAX_ERROR_CHARS],
        claimed_by=None,
        visible_at=None,
        updated_at=statement.now,
    )
    statement.put(statement.tables.jobs, now)
    failed = state is JobState.FAILED
    rules.count(statement, now.name, Tally(failed=int(failed), dead=int(not failed)), 0)
    return BuriedJob(
        id=now.id,
        name=now.name,
        queue=now.queue,
        input=now.input,
        run_id=now.run_id,
        attempt=now.attempt,
        tenant_id=now.tenant_id,
        state=state_of(now.state),
        last_error=error[:MAX_ERROR_CHARS],
    )


# Signs of life


def _heartbeat(
    statement: Statement, presence: Presence, held: Sequence[HeldClaim], lease: timedelta
) -> list[Lost]:
    _beat(statement, presence, held, lease)
    _forget(statement)
    _disown_unknown(statement, presence.worker, held)
    lost: list[Lost] = []
    for claim in held:
        keeps_slot = claim.slot is None or _renewed(statement, claim, lease)
        stands = rules.standing(statement, claim.id, claim.claim, presence.worker) is not None
        if not (stands and keeps_slot):
            lost.append(Lost(HeldClaim(claim.id, claim.claim), slot_only=stands))
    return lost


def _beat(
    statement: Statement, presence: Presence, held: Sequence[HeldClaim], lease: timedelta
) -> None:
    before = statement.get(statement.tables.workers, presence.worker)
    first = before or WorkerRow(
        id=presence.worker,
        host=presence.host,
        pid=presence.pid,
        queues=tuple(presence.queues),
        jobs=(),
        concurrency=presence.concurrency,
        state="",
        running=(),
        started_at=statement.now,
        beat_at=statement.now,
        expires_at=statement.now,
    )
    now = replace(
        first,
        jobs=tuple(presence.jobs),
        state=presence.state,
        running=tuple(claim.id for claim in held),
        beat_at=statement.now,
        expires_at=statement.now + lease,
    )
    statement.put(statement.tables.workers, now)


def _forget(statement: Statement) -> None:
    workers = statement.tables.workers
    for row in statement.rows(workers):
        if row.expires_at < statement.now - FORGOTTEN and statement.is_free(workers, row):
            statement.remove(workers, row)


def _disown_unknown(statement: Statement, worker: str, held: Sequence[HeldClaim]) -> None:
    known = {(claim.id, claim.claim) for claim in held}
    for row in statement.find(statement.tables.jobs, "state", JobState.RUNNING.value):
        if (
            row.claimed_by == worker
            and row.visible_at is not None
            and row.visible_at <= statement.now
            and (row.id, row.claim) not in known
            and statement.is_free(statement.tables.jobs, row)
        ):
            _disown(statement, row)


def _disown(statement: Statement, row: JobRow) -> None:
    statement.put(statement.tables.jobs, replace(row, claimed_by=f"{row.claimed_by} (disowned)"))


def _renewed(statement: Statement, claim: HeldClaim, lease: timedelta) -> bool:
    row = lease_of(statement, claim)
    if row is None or row.expires_at <= statement.now:
        return False
    statement.put(statement.tables.leases, replace(row, expires_at=statement.now + lease))
    return True


def lease_of(statement: Statement, claim: HeldClaim) -> LeaseRow | None:
    """Answer the slot that a claim occupies, while it is the claim's."""
    if claim.slot is None:
        return None
    row = statement.get(statement.tables.leases, (claim.slot.key, claim.slot.number))
    if row is None or (row.job_id, row.claim) != (claim.id, claim.claim):
        return None
    return row
