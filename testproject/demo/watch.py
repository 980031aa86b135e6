"""What is to be known while the demo runs."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count

from ultimate_jobs.core.states import LIVE, JobState
from ultimate_jobs.models import Job, OutboxEntry


@dataclass(frozen=True, slots=True)
class Progress:
    """How many checkouts are done, were undone, and have yet to end."""

    done: int
    undone: int
    unfinished: int

    @property
    def ended(self) -> int:
        return self.done + self.undone


def progress() -> Progress:
    # First what is staged: a job that is published in between is counted twice and not never.
    staged = OutboxEntry.objects.filter(published_at=None).count()
    states = dict(Job.objects.order_by().values_list("state").annotate(Count("pk")))
    return Progress(
        done=states.get(JobState.DONE, 0),
        undone=states.get(JobState.DEAD, 0),
        unfinished=staged + sum(states.get(state, 0) for state in LIVE),
    )


def held_by(pid: int) -> dict[UUID, int]:
    """Answer the jobs that the worker with this process id is running, with their claims."""
    held = Job.objects.filter(state=JobState.RUNNING, claimed_by__contains=f":{pid}:")
    return dict(held.values_list("pk", "claim"))
