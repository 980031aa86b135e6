"""What is to be known while the demo runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count

from ultimate_jobs.core.states import LIVE, JobState
from ultimate_jobs.models import Event, Job, JobStep, OutboxEntry


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


def what_hangs(most: int = 5) -> Iterator[str]:
    """Say of jobs that have not ended where they stand, their steps and the events they wait for."""
    for job in Job.objects.filter(state__in=LIVE).order_by("created_at")[:most]:
        fields = ("state", "attempt", "claim", "claimed_by", "run_at", "visible_at", "updated_at")
        yield f"{job.pk}: " + ", ".join(f"{field}={getattr(job, field)}" for field in fields)
        steps = JobStep.objects.filter(run_id=job.run_id).order_by("position")
        yield "  steps: " + ", ".join(f"{step.name} {step.status}" for step in steps)
        events = Event.objects.filter(correlation_key=job.input.get("reference"))
        yield f"  events: {[str(event.published_at) for event in events]}"


def held_by(pid: int) -> dict[UUID, int]:
    """Answer the jobs that the worker with this process id is running, with their claims."""
    held = Job.objects.filter(state=JobState.RUNNING, claimed_by__contains=f":{pid}:")
    return dict(held.values_list("pk", "claim"))
