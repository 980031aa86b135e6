"""What an operator does to one job."""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError

from ultimate_jobs.core.records import Requeue
from ultimate_jobs.core.states import state_of
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database


class PostgresOperator:
    """Verbs over ``x_jobs`` and its steps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cancel(self, job: UUID, reason: str | None) -> bool:
        """Cancel a live job."""
        params = {"now": None, "job_id": job, "reason": reason}
        return bool(self._database.rows(sql.CANCEL, params))

    def requeue(self, job: UUID, from_step: str | None) -> Requeue:
        """Make a finished job due now."""
        params = {"now": None, "job_id": job, "from_step": from_step}
        try:
            rows = self._database.transact(lambda: self._database.rows(sql.REQUEUE, params))
        except IntegrityError:
            # A job with the same key was enqueued meanwhile; a second look names it.
            rows = self._database.transact(lambda: self._database.rows(sql.REQUEUE, params))
        if not rows:
            return Requeue(moved=False)
        ((state, moved, holder, steps, undone, _),) = rows
        return Requeue(
            moved=bool(moved),
            state=state_of(state),
            holder=holder,
            step_known=bool(steps),
            undone=bool(undone),
        )

    def resolve_step(self, job: UUID, step: str, *, ran: bool, output: str | None) -> bool:
        """Say how a step in doubt ended."""
        ((_, resolved),) = self._database.rows(
            sql.STEP_RESOLVE,
            {"now": None, "job_id": job, "name": step, "ran": ran, "output": output},
        )
        return bool(resolved)
