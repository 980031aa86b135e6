"""What is read of the database and of the processes, while the soak runs and afterwards."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.db import connection  # noqa: TID251
from django.db.models import Count, Exists, OuterRef
from django.db.models.functions import Now

from testproject.soak.audit import Minute, Row
from testproject.soak.jobs import JOBS, tick
from testproject.soak.models import Effect
from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.states import LIVE, TERMINAL
from ultimate_jobs.models import Job, JobStep, Lease, OutboxEntry

LEAVING_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Progress:
    """How many jobs have ended, and how many have yet to."""

    ended: int
    unfinished: int


def progress() -> Progress:
    # First what is staged: a job that is published in between is counted twice and not never.
    staged = OutboxEntry.objects.filter(published_at=None).count()
    states = dict(Job.objects.order_by().values_list("state").annotate(Count("pk")))
    return Progress(
        ended=sum(states.get(state, 0) for state in TERMINAL),
        unfinished=staged + sum(states.get(state, 0) for state in LIVE),
    )


def rows() -> list[Row]:
    """Answer the jobs that the producers brought."""
    brought = Job.objects.filter(name__in=[job.name for job in JOBS.values()])
    found = brought.order_by().values_list("idempotency_key", "state", "claim", "claimed_by")
    return [
        Row(key, state, claim, is_held=state == "running" or holder is not None)
        for key, state, claim, holder in found.iterator()
    ]


def minutes() -> list[Minute]:
    """Answer the jobs of the schedule, in the order of their occurrences."""
    found = Job.objects.filter(name=tick.name).order_by("run_at", "id")
    return [
        Minute(int(run_at.timestamp()) // 60, state)
        for run_at, state in found.values_list("run_at", "state")
    ]


def staged() -> list[str]:
    waiting = OutboxEntry.objects.filter(published_at=None)
    return list(waiting.values_list("idempotency_key", flat=True))


def effects() -> dict[tuple[str, str], int]:
    return Counter(Effect.objects.order_by().values_list("key", "step").iterator())


def orphans() -> int:
    """Count steps of runs that do not exist."""
    return JobStep.objects.exclude(Exists(Job.objects.filter(run_id=OuterRef("run_id")))).count()


def leases_in_force() -> int:
    """Count the slots that are held once the term of those is over whose worker was killed."""
    term = get_settings().visibility_timeout.total_seconds()
    tick = threading.Event()
    deadline = time.monotonic() + term
    while (held := Lease.objects.filter(expires_at__gt=Now()).count()) and (
        time.monotonic() < deadline
    ):
        tick.wait(0.05)
    return held


def connections() -> dict[str, int]:
    """Count the connections of each client to this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT application_name, count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend'"
            " GROUP BY application_name"
        )
        return dict(cursor.fetchall())


def connections_left(before: int) -> int:
    """Count the connections once those that are leaving have left."""
    tick = threading.Event()
    deadline = time.monotonic() + LEAVING_SECONDS
    while (now := sum(connections().values())) != before and time.monotonic() < deadline:
        tick.wait(0.05)
    return now


def peak_mb(pids: Iterable[int]) -> int:
    """Answer the most memory that any of these processes had, where the system tells."""
    peaks = [0]
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        except OSError:
            continue
        peaks += [int(line.split()[1]) // 1024 for line in status.splitlines() if "VmHWM" in line]
    return max(peaks)
