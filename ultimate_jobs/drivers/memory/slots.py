"""Slots: taken one claim at a time, left with the settlement, lapsed by their own deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from ultimate_jobs.core.records import Admitted, HeldClaim, SlotAnswer, SlotRequest, Topic
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.memory import rules
from ultimate_jobs.drivers.memory.following import Session
from ultimate_jobs.drivers.memory.rows import JobRow, LeaseRow
from ultimate_jobs.drivers.memory.store import Statement

KEYS_A_PASS = 200
"""Keys that one look for rows standing by goes through."""

CROWD = 1_000
"""Rows of a key that stand by, or are admitted, at most at once."""


class MemorySlots:
    """The occupied slots, and the jobs that stand by."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def acquire(
        self, worker: str, lease: timedelta, requests: Sequence[SlotRequest]
    ) -> Mapping[UUID, SlotAnswer]:
        """Take a free slot for each claim, as far as there are any."""
        return self._session.run(lambda statement: _acquire(statement, worker, lease, requests))

    def stand_by(self, worker: str, claims: Sequence[tuple[HeldClaim, str]]) -> None:
        """Hand claims back, uncounted, until a slot of their key is left."""
        self._session.run(lambda statement: _stand_by(statement, worker, claims))

    def admit(self, caps: Mapping[str, int], after: str) -> Admitted:
        """Let rows be claimed again whose key has free slots."""
        return self._session.run(lambda statement: _admit(statement, caps, after))


def _acquire(
    statement: Statement, worker: str, lease: timedelta, requests: Sequence[SlotRequest]
) -> dict[UUID, SlotAnswer]:
    living = {request.key: _living(statement, request.key) for request in requests}
    least = {r.key: min(o.cap for o in requests if o.key == r.key) for r in requests}
    answers: dict[UUID, SlotAnswer] = {}
    for request in requests:
        others = sum(row.run_id != request.run_id for row in living[request.key])
        number = _free(statement, request.key, least[request.key])
        if number is not None:
            _occupy(statement, worker, lease, request, number)
        answers[request.id] = SlotAnswer(number, others, raced=False)
    return answers


def _living(statement: Statement, key: str) -> list[LeaseRow]:
    return [
        row
        for row in statement.find(statement.tables.leases, "key", key)
        if row.expires_at > statement.now
    ]


def _free(statement: Statement, key: str, cap: int) -> int | None:
    taken = {row.slot for row in _living(statement, key)}
    if len(taken) >= cap:
        return None
    return next(number for number in range(1, cap + 1) if number not in taken)


def _occupy(
    statement: Statement, worker: str, lease: timedelta, request: SlotRequest, number: int
) -> None:
    statement.put(
        statement.tables.leases,
        LeaseRow(
            lease_key=request.key,
            slot=number,
            job_id=request.id,
            run_id=request.run_id,
            claim=request.claim,
            worker=worker,
            expires_at=statement.now + lease,
        ),
    )


def _stand_by(statement: Statement, worker: str, claims: Sequence[tuple[HeldClaim, str]]) -> None:
    jobs = statement.tables.jobs
    for key in {key for _, key in claims}:
        behind = (
            row
            for row in statement.find(jobs, "sharing", key)
            if row.run_at <= statement.now and statement.is_free(jobs, row)
        )
        for row in sorted(behind, key=lambda row: row.run_at)[:CROWD]:
            statement.put(jobs, replace(row, blocked=True))
    for claim, key in claims:
        held = rules.standing(statement, claim.id, claim.claim, worker)
        if held is not None:
            statement.put(jobs, _handed_back(statement, held, key))


def _handed_back(statement: Statement, row: JobRow, key: str) -> JobRow:
    return replace(
        row,
        state=JobState.READY.value,
        attempt=max(row.attempt - 1, 0),
        lease_key=key,
        blocked=True,
        claimed_by=None,
        visible_at=None,
        updated_at=statement.now,
    )


def _admit(statement: Statement, caps: Mapping[str, int], after: str) -> Admitted:
    waiting: dict[str, list[JobRow]] = {}
    for row in statement.rows(statement.tables.jobs):
        if row.is_waiting and row.blocked and row.lease_key is not None and row.lease_key > after:
            waiting.setdefault(row.lease_key, []).append(row)
    keys = sorted(waiting)[:KEYS_A_PASS]
    count = sum(
        _come_forward(statement, key, sorted(waiting[key], key=rules.in_turn), caps) for key in keys
    )
    return Admitted(keys[-1] if len(keys) >= KEYS_A_PASS else None, bool(keys), count)


def _come_forward(
    statement: Statement, key: str, rows: list[JobRow], caps: Mapping[str, int]
) -> int:
    jobs, cap = statement.tables.jobs, caps.get(rows[0].name)
    ahead = any(row.run_at <= statement.now for row in statement.find(jobs, "sharing", key))
    if cap is None or ahead:
        return 0
    room = max(min(cap - len(_living(statement, key)), CROWD), 0)
    forward = [row for row in rows if statement.is_free(jobs, row)][:room]
    for row in forward:
        statement.put(jobs, replace(row, blocked=False))
        statement.tell(Topic.JOBS, row.queue)
    return len(forward)
