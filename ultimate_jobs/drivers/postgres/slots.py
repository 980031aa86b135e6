"""Slots: taken behind a primary key, left with the settlement, lapsed by their own deadline."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from ultimate_jobs.core.records import Admitted, HeldClaim, SlotAnswer, SlotRequest
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database

KEYS_A_PASS = 200
"""Keys that one look for rows standing by goes through; ``slots/admit.sql`` counts to it."""

_INT4 = 2**31


class PostgresSlots:
    """The table ``x_job_leases``, and the rows of ``x_jobs`` that stand by."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(
        self, worker: str, lease: timedelta, requests: Sequence[SlotRequest]
    ) -> Mapping[UUID, SlotAnswer]:
        """Take a free slot for each claim, as far as there are any."""
        rows = self._database.rows(
            sql.SLOT_ACQUIRE,
            {
                "worker": worker,
                "lease": lease,
                "seed": zlib.crc32(worker.encode()) % _INT4,
                "ids": [r.id for r in requests],
                "run_ids": [r.run_id for r in requests],
                "claims": [r.claim for r in requests],
                "lease_keys": [r.key for r in requests],
                "caps": [r.cap for r in requests],
            },
        )
        return {row[0]: SlotAnswer(row[1], row[2], row[3]) for row in rows}

    def stand_by(self, worker: str, claims: Sequence[tuple[HeldClaim, str]]) -> None:
        """Hand claims back, uncounted, until a slot of their key is left."""
        self._database.rows(
            sql.SLOT_STAND_BY,
            {
                "worker": worker,
                "ids": [claim.id for claim, _ in claims],
                "claims": [claim.claim for claim, _ in claims],
                "lease_keys": [key for _, key in claims],
            },
        )

    def admit(self, caps: Mapping[str, int], after: str) -> Admitted:
        """Let rows be claimed again whose key has free slots."""
        ((last_key, seen, admitted),) = self._database.rows(
            sql.SLOT_ADMIT,
            {"after": after, "names": list(caps), "caps": list(caps.values())},
        )
        return Admitted(last_key if seen >= KEYS_A_PASS else None, seen > 0, admitted)
