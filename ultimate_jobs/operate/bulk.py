"""What an operator does to many jobs: one statement a call, over a bounded number of rows.

A call first finds what the selection means, looking at no more rows than a search may, then moves at
most 1,000 of these in one statement. It answers what is left, so that the same call is repeated until
nothing is; ``next`` goes on behind what one search looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from ultimate_jobs.core.selection import Moved, Selection
from ultimate_jobs.core.states import LIVE, TERMINAL, JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import InvariantError, SelectionInvalid
from ultimate_jobs.operate.inspection import listed
from ultimate_jobs.operate.search import search
from ultimate_jobs.operate.verbs import kept_reason, whoever

MAX_BULK_ROWS = 1_000
SAMPLE_ROWS = 10

_Move = Callable[[Sequence[UUID], int], Moved]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """What a bulk verb did, or with ``dry_run`` would do.

    Attributes:
        verb: what was done.
        dry_run: whether nothing was changed.
        affected: jobs that were changed, or would be by one call.
        remaining: jobs that the same call would still change after this one.
        capped: ``remaining`` is a lower bound: the search ended before the table did.
        next: pass it as ``after`` to go on behind what was searched; ``None``: all was.
        sample: the first of the jobs, for a dry run.
        jobs: the jobs that were changed.
        selection: what was asked for, in plain values.
        by, reason: who did it, and why.

    """

    verb: str
    dry_run: bool
    affected: int
    remaining: int
    capped: bool
    next: str | None
    sample: list[dict[str, Any]] = field(default_factory=list)
    jobs: tuple[UUID, ...] = ()
    selection: dict[str, Any]
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far one call goes.

    Attributes:
        limit: jobs to change, 1 to 1,000.
        dry_run: change nothing; say what would be.
        everything: a selection without any condition is meant.
        after: go on behind the search that answered this as ``next``.

    """

    limit: int = MAX_BULK_ROWS
    dry_run: bool = False
    everything: bool = False
    after: str | None = None


def retry_jobs(
    selection: Selection, bounds: Bounds | None = None, *, by: str | None = None
) -> Bulk:
    """Make finished jobs due now, like ``retry_job``.

    One whose key a live job holds is left alone and not counted as remaining; of several with one key
    the newest is retried.

    Raises:
        SelectionInvalid: no condition, or a state that no retry acts on.

    """
    return _bulk("retry", TERMINAL, selection, bounds, get_driver().operator.requeue_many, by=by)


def cancel_jobs(
    selection: Selection,
    bounds: Bounds | None = None,
    *,
    reason: str | None = None,
    by: str | None = None,
) -> Bulk:
    """Cancel live jobs, like ``cancel_job``.

    Raises:
        SelectionInvalid: no condition, or a state that no cancel acts on.

    """
    kept = kept_reason(reason)

    def cancel(jobs: Sequence[UUID], limit: int) -> Moved:
        return get_driver().operator.cancel_many(jobs, limit, kept)

    return replace(_bulk("cancel", LIVE, selection, bounds, cancel, by=by), reason=kept)


def promote_jobs(
    selection: Selection, bounds: Bounds | None = None, *, by: str | None = None
) -> Bulk:
    """Make jobs due now that wait for their time, like ``promote_job``.

    Raises:
        SelectionInvalid: no condition, or a state that no promotion acts on.

    """
    able = frozenset({JobState.DELAYED, JobState.READY})
    return _bulk("promote", able, selection, bounds, get_driver().operator.promote_many, by=by)


def remove_jobs(
    selection: Selection, bounds: Bounds | None = None, *, by: str | None = None
) -> Bulk:
    """Remove jobs that do not run, like ``remove_job``.

    Raises:
        SelectionInvalid: no condition, or the state ``running``.

    """
    able = frozenset(JobState) - {JobState.RUNNING}
    return _bulk("remove", able, selection, bounds, get_driver().operator.remove_many, by=by)


def _bulk(
    verb: str,
    able: frozenset[JobState],
    selection: Selection,
    bounds: Bounds | None,
    move: _Move,
    *,
    by: str | None,
) -> Bulk:
    within = bounds or Bounds()
    wanted = _checked(verb, able, selection, within)
    found = search(wanted, after=within.after)
    moved = move(found.ids, 0 if within.dry_run else within.limit)
    would = min(moved.remaining, within.limit) if within.dry_run else 0
    return Bulk(
        verb=verb,
        dry_run=within.dry_run,
        affected=would if within.dry_run else len(moved.jobs),
        remaining=moved.remaining - would,
        capped=not found.complete or found.older is not None,
        next=found.older,
        sample=listed(found.ids[:SAMPLE_ROWS]) if within.dry_run else [],
        jobs=moved.jobs,
        selection=selection.words(),
        by=whoever(by),
    )


def _checked(
    verb: str, able: frozenset[JobState], selection: Selection, bounds: Bounds
) -> Selection:
    if not 1 <= bounds.limit <= MAX_BULK_ROWS:
        raise InvariantError(f"A bulk {verb} acts on 1 to {MAX_BULK_ROWS:,} jobs a call.")
    if selection.is_everything and not bounds.everything:
        raise SelectionInvalid(f"A bulk {verb} needs a condition.")
    if len(selection.ids) > MAX_BULK_ROWS:
        raise SelectionInvalid(f"A selection names at most {MAX_BULK_ROWS:,} ids.")
    if unable := sorted(set(selection.states) - able):
        raise SelectionInvalid(
            f"No {verb} acts on a job that is {unable[0]}.",
            fix=f"Name only these states: {', '.join(sorted(able))}.",
        )
    states = selection.states or tuple(sorted(able))
    return replace(selection, states=states)
