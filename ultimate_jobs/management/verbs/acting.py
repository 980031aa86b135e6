"""Verbs that move jobs, one by its id or many by what they are: ``retry cancel promote remove``."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from ultimate_jobs.core.selection import Selection
from ultimate_jobs.errors import UsageInvalid
from ultimate_jobs.management.asking import ask
from ultimate_jobs.management.filters import FILTERS, add_filters, selection
from ultimate_jobs.management.options import positive, whoami
from ultimate_jobs.management.verb import Answer, Options, Verb
from ultimate_jobs.operate.bulk import (
    MAX_BULK_ROWS,
    Bounds,
    Bulk,
    cancel_jobs,
    promote_jobs,
    remove_jobs,
    retry_jobs,
)
from ultimate_jobs.operate.inspection import show_job
from ultimate_jobs.operate.verbs import cancel_job, promote_job, remove_job, resolve_step, retry_job

_Many = Callable[[Selection, Bounds], Bulk]
_BULK_ONLY = (*FILTERS, "all", "dry_run", "after")


def add_bulk(parser: ArgumentParser) -> None:
    """Add the id of one job, and the options that mean many."""
    parser.add_argument("id", nargs="?", help="the job's id; without it the filters say which")
    add_filters(parser)
    parser.add_argument("--all", action="store_true", help="every job that the verb can act on")
    parser.add_argument("--dry-run", action="store_true", help="change nothing; say what would be")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--limit",
        type=positive,
        default=MAX_BULK_ROWS,
        help=f"jobs to change, at most {MAX_BULK_ROWS:,}",
    )
    parser.add_argument("--after", metavar="CURSOR", help="go on behind the search that said so")


def _retry_arguments(parser: ArgumentParser) -> None:
    add_bulk(parser)
    parser.add_argument(
        "--from-step", metavar="STEP", help="forget this step and all after it; with an id"
    )


def _retry(options: Options) -> Answer:
    if options["id"] is None:
        if options["from_step"] is not None:
            raise UsageInvalid("--from-step is for one job, named by its id.")
        return _many(options, partial(retry_jobs, by=whoami()))
    _alone(options)
    retry_job(options["id"], options["from_step"], by=whoami())
    return Answer(show_job(options["id"]))


def _cancel_arguments(parser: ArgumentParser) -> None:
    add_bulk(parser)
    parser.add_argument("--reason", help="kept as the error of the job")


def _cancel(options: Options) -> Answer:
    if options["id"] is None:
        return _many(options, partial(cancel_jobs, reason=options["reason"], by=whoami()))
    _alone(options)
    cancel_job(options["id"], options["reason"], by=whoami())
    return Answer(show_job(options["id"]))


def _promote(options: Options) -> Answer:
    if options["id"] is None:
        return _many(options, partial(promote_jobs, by=whoami()))
    _alone(options)
    promote_job(options["id"], by=whoami())
    return Answer(show_job(options["id"]))


def _remove(options: Options) -> Answer:
    if options["id"] is None:
        return _many(options, partial(remove_jobs, by=whoami()))
    _alone(options)
    before = show_job(options["id"])
    remove_job(options["id"], by=whoami())
    return Answer(before)


def _resolve_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="the job's id")
    parser.add_argument("step", help="the step's name")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--ran", action="store_true", help="its function took effect")
    how.add_argument("--not-ran", action="store_true", help="it did not; it may run")
    parser.add_argument("--output", metavar="JSON", help="what the step answered, with --ran")


def _resolve(options: Options) -> Answer:
    resolve_step(
        options["id"], options["step"], ran=options["ran"], output=options["output"], by=whoami()
    )
    return Answer(show_job(options["id"]))


def _alone(options: Options) -> None:
    """Refuse an id together with what means many."""
    for option in _BULK_ONLY:
        if options[option] not in (None, False):
            flag = f"--{option.replace('_', '-')}"
            raise UsageInvalid(f"{flag} is for many jobs, and an id names one.")


def _many(options: Options, act: _Many) -> Answer:
    wanted = selection(options)
    if wanted.is_everything and not options["all"]:
        raise UsageInvalid(
            "Neither an id nor a filter says which jobs are meant.",
            fix="Name an id, a filter such as --queue, or --all.",
        )
    bounds = Bounds(
        limit=options["limit"],
        dry_run=options["dry_run"],
        everything=options["all"],
        after=options["after"],
    )
    if not options["dry_run"] and not options["yes"]:
        _confirm(act(wanted, replace(bounds, dry_run=True)))
    return Answer(document(act(wanted, bounds)))


def document(done: Bulk) -> dict[str, Any]:
    """Answer what a bulk verb did, in plain values."""
    return {**asdict(done), "jobs": [str(job) for job in done.jobs]}


def _confirm(would: Bulk) -> None:
    if would.affected:
        more = "" if not would.remaining else f", and {would.remaining:,} more by further calls"
        ask(f"This would {would.verb} {would.affected:,} jobs{more}.")


VERBS = (
    Verb(
        name="retry",
        help="make finished jobs due now",
        arguments=_retry_arguments,
        run=_retry,
        screen="jobs.moved",
    ),
    Verb(
        name="cancel",
        help="cancel live jobs",
        arguments=_cancel_arguments,
        run=_cancel,
        screen="jobs.moved",
    ),
    Verb(
        name="promote",
        help="make jobs due now that wait for their time",
        arguments=add_bulk,
        run=_promote,
        screen="jobs.moved",
    ),
    Verb(
        name="remove",
        help="remove jobs that do not run",
        arguments=add_bulk,
        run=_remove,
        screen="jobs.moved",
    ),
    Verb(
        name="resolve-step",
        help="say how a step in doubt ended",
        arguments=_resolve_arguments,
        run=_resolve,
        screen="jobs.details",
    ),
)
