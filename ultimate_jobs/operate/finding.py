"""Jobs by what somebody has in hand: an id, the id of a run, the beginning of a key."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.states import LIVE, TERMINAL, JobState
from ultimate_jobs.models import Job, JobStep

KEY_WINDOW = 1_000
"""Keys of live jobs, and of ended ones, that a search for a beginning looks at."""

RUN_WINDOW = 10_000
"""Jobs, from the moment of a run's id on, that a search for a run without steps looks at."""

MOST_FOUND = 500
_BEFORE = timedelta(seconds=2)
_TIME_ORDERED = 7


@dataclass(frozen=True, slots=True)
class Sighting:
    """The jobs found; with ``complete`` false the search ended at its window, and there may be more."""

    ids: tuple[UUID, ...]
    complete: bool = True


def find_by_id(wanted: UUID) -> Sighting:
    """Find the job of this id or of this run, in one statement, or two for a run without steps.

    Such a run is looked for among the jobs made from the moment on that its id tells.
    """
    database = get_settings().database
    own = Job.objects.using(database).filter(id=wanted).order_by().values_list("id")
    steps = JobStep.objects.using(database).filter(run_id=wanted).order_by()
    found = tuple(job for (job,) in own.union(steps.values_list("job_id")[:1]).order_by())
    if found or wanted.version != _TIME_ORDERED:
        return Sighting(found)
    since = datetime.fromtimestamp((wanted.int >> 80) / 1000, UTC) - _BEFORE
    made = Job.objects.using(database).filter(created_at__gte=since).order_by("created_at", "id")
    near = made.values_list("id", "run_id")[:RUN_WINDOW]
    return Sighting(
        tuple(job for job, run in near if run == wanted), complete=len(near) < RUN_WINDOW
    )


def find_by_prefix(prefix: str) -> Sighting:
    """Find the jobs whose keys begin with a text, in two statements, each along an index.

    Keys are read from the text on in the order of the database's collation, which may put others
    between; what lies beyond the window is not found.
    """
    live, ended = _keys(prefix, LIVE), _keys(prefix, TERMINAL)
    found = [job for job, key in (*live, *ended) if key.startswith(prefix)]
    complete = all(_is_all(keys, prefix) for keys in (live, ended)) and len(found) <= MOST_FOUND
    return Sighting(tuple(found[:MOST_FOUND]), complete)


def _keys(prefix: str, states: Collection[JobState]) -> list[tuple[UUID, str]]:
    rows = Job.objects.using(get_settings().database).filter(
        idempotency_key__gte=prefix, state__in=sorted(state.value for state in states)
    )
    return list(rows.order_by("idempotency_key").values_list("id", "idempotency_key")[:KEY_WINDOW])


def _is_all(keys: list[tuple[UUID, str]], prefix: str) -> bool:
    return len(keys) < KEY_WINDOW or not keys[-1][1].startswith(prefix)
