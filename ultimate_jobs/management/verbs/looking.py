"""Verbs that look at jobs: ``list show dead outbox describe``."""

from __future__ import annotations

from argparse import ArgumentParser

from ultimate_jobs.management.filters import add_filters, selection
from ultimate_jobs.management.options import positive, stored
from ultimate_jobs.management.verb import Answer, Options, Verb
from ultimate_jobs.operate.dead import dead_groups, dead_letters
from ultimate_jobs.operate.descriptions import describe_job, describe_jobs
from ultimate_jobs.operate.inspection import DEFAULT_JOB_PAGE, Filter, show_job
from ultimate_jobs.operate.listing import listing
from ultimate_jobs.operate.overview import MAX_STAGED_ROWS, outbox_backlog, staged_rows


def _list_arguments(parser: ArgumentParser) -> None:
    add_filters(parser)
    parser.add_argument(
        "--limit", type=positive, default=DEFAULT_JOB_PAGE, help="rows of the page, at most 200"
    )
    cursor = parser.add_mutually_exclusive_group()
    cursor.add_argument("--after", metavar="CURSOR", help="the page after this job")
    cursor.add_argument("--before", metavar="CURSOR", help="the page before this job")


def _list(options: Options) -> Answer:
    wanted = selection(options)
    return Answer(
        listing(
            Filter(
                states=wanted.states,
                queue=wanted.queue,
                name=wanted.name,
                tenant=wanted.tenant,
                key=wanted.key,
                related=wanted.related,
                error_like=wanted.error_like,
                older_than=wanted.older_than,
                newer_than=wanted.newer_than,
                limit=options["limit"],
                after=options["after"],
                before=options["before"],
            )
        )
    )


def _show_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="the job's id, also while it is staged")
    parser.add_argument("--outputs", action="store_true", help="also what its steps stored")


def _show(options: Options) -> Answer:
    return Answer(show_job(options["id"], outputs=options["outputs"]))


def _dead_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--queue", type=stored, help="only this queue")
    parser.add_argument("--limit", type=positive, default=20, help="rows to show, at most 200")


def _dead(options: Options) -> Answer:
    queue = options["queue"]
    return Answer({**dead_groups(queue), "jobs": dead_letters(queue, options["limit"])})


def _outbox_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=positive, default=20, help=f"rows to show, at most {MAX_STAGED_ROWS}"
    )


def _outbox(options: Options) -> Answer:
    return Answer({**outbox_backlog(), "rows": staged_rows(options["limit"])})


def _describe_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="the job's durable name; all by default")


def _describe(options: Options) -> Answer:
    name = options["name"]
    return Answer({"jobs": describe_jobs() if name is None else [describe_job(name)]})


VERBS = (
    Verb(
        name="list",
        help="list jobs, newest first",
        arguments=_list_arguments,
        run=_list,
        screen="jobs.page",
    ),
    Verb(
        name="show",
        help="show one job",
        arguments=_show_arguments,
        run=_show,
        screen="jobs.details",
    ),
    Verb(
        name="dead",
        help="show what failed for good, by error, with the line that retries it",
        arguments=_dead_arguments,
        run=_dead,
        screen="dead.groups",
    ),
    Verb(
        name="outbox",
        help="show what waits in the outbox, oldest first",
        arguments=_outbox_arguments,
        run=_outbox,
        screen="overview.outbox",
    ),
    Verb(
        name="describe",
        help="show what jobs declare",
        arguments=_describe_arguments,
        run=_describe,
        screen="declared.described",
    ),
)
