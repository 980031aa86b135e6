"""Steps: read once an attempt, written behind the fence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar
from uuid import UUID

from ultimate_jobs.core.records import Fence, StepWrite, WaitEnd
from ultimate_jobs.core.replay import StepRecord, step_status
from ultimate_jobs.drivers.base import ClaimGone
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.drivers.postgres.events import PUBLISHING_LOCK

T = TypeVar("T")


class PostgresSteps:
    """The table ``x_job_steps``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self, fence: Fence) -> tuple[list[StepRecord], str]:
        """Read the steps of a run."""
        rows = self._database.rows(sql.STEP_LOAD, _fenced(fence))
        records = [
            StepRecord(
                name=row[0],
                position=row[1],
                status=step_status(row[2]),
                output=row[3],
                error=row[4],
                attempts=row[5],
                wake_at=row[6],
                due=row[7],
                undoable=row[8],
            )
            for row in rows
            if row[0] is not None
        ]
        return records, rows[0][9]

    def put(self, fence: Fence, step: StepWrite) -> str | None:
        """Write a step while the claim stands."""
        rows = self._database.rows(
            sql.STEP_PUT,
            {
                **_fenced(fence),
                "name": step.name,
                "position": step.position,
                "status": step.status.value,
                "output": step.output,
                "error": step.error,
                "attempts": step.attempts,
                "took": step.took,
                "undoable": step.undoable,
                "since": step.since,
            },
        )
        return rows[0][0] if rows else None

    def settle_wait(self, fence: Fence, name: str) -> WaitEnd | None:
        """End a wait that is over."""
        ((ours, ended, output),) = self._database.rows(
            sql.STEP_SETTLE_WAIT, {**_fenced(fence), "name": name}
        )
        if not ours:
            raise ClaimGone
        return WaitEnd(output) if ended else None

    def look_again(self, waits: Sequence[tuple[UUID, timedelta]]) -> list[UUID]:
        """Look once more at runs that have just begun to wait.

        Who publishes is asked first: one that has ended before the look began is seen by it.
        """
        ((publishing,),) = self._database.rows(
            sql.EVENT_PUBLISHING, {"publishing_lock": PUBLISHING_LOCK}
        )
        rows = self._database.rows(
            sql.STEP_LOOK_AGAIN,
            {
                "ids": [job for job, _ in waits],
                "polls": [poll for _, poll in waits],
                "publishing": publishing,
            },
        )
        return [row[0] for row in rows if row[1]]

    def transaction_depth(self) -> int:
        """Answer how many transaction blocks the thread has open."""
        return self._database.transaction_depth()

    def transact(self, work: Callable[[], T]) -> T:
        """Run work in one transaction."""
        return self._database.transact(work)


def _fenced(fence: Fence) -> dict[str, object]:
    return {
        "job_id": fence.job_id,
        "run_id": fence.run_id,
        "claim": fence.claim,
        "worker": fence.worker,
    }
