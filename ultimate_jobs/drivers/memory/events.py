"""Events: written in the caller's transaction, found by whoever began to wait before it committed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ultimate_jobs.core.records import NewEvent, Topic
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.memory.following import Session
from ultimate_jobs.drivers.memory.jsonb import jsonb
from ultimate_jobs.drivers.memory.rows import EventRow, StepRow
from ultimate_jobs.drivers.memory.store import Statement

_A_MOMENT = timedelta(microseconds=1)
"""A run that is due already is moved as well: who read it before sees that it was."""


class MemoryEvents:
    """The events."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def publish(self, event: NewEvent) -> int:
        """Write an event and make the runs that wait for it due."""
        return self._session.run(lambda statement: _publish(statement, event))


def _publish(statement: Statement, event: NewEvent) -> int:
    statement.put(
        statement.tables.events,
        EventRow(
            id=event.id,
            name=event.name,
            correlation_key=event.correlation_key,
            payload=jsonb(event.payload),
            published_at=statement.now,
            expires_at=statement.now + event.ttl,
        ),
    )
    waiters = statement.find(statement.tables.steps, "waiting", event.name)
    jobs = sorted({step.job_id for step in waiters if _meets(step, event.correlation_key)})
    woken = 0
    for job in jobs:
        row = statement.get(statement.tables.jobs, job)
        if row is None or row.state != JobState.SUSPENDED:
            continue
        due = min(statement.now, row.run_at - _A_MOMENT)
        statement.put(statement.tables.jobs, replace(row, run_at=due))
        statement.tell(Topic.JOBS, row.queue)
        woken += 1
    return woken


def come_for(statement: Statement, step: StepRow) -> EventRow | None:
    """Answer the earliest event that came after a wait began, and has not expired."""
    if step.event is None:
        return None
    come = (
        event
        for event in statement.find(statement.tables.events, "name", step.event)
        if _meets(step, event.correlation_key)
        and event.expires_at > statement.now
        and (event.commit is None or event.commit > step.waited_from)
    )
    return min(come, key=lambda event: (event.published_at, event.id), default=None)


def publishes(statement: Statement) -> bool:
    """Answer whether another open transaction has published something."""
    events = statement.tables.events.name
    return any(other.whole.rows.get(events) for other in statement.others())


def _meets(step: StepRow, correlation_key: str | None) -> bool:
    return step.match is None or step.match == correlation_key
