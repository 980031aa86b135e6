"""The verb that deletes what is past its time: ``purge``."""

from __future__ import annotations

from argparse import ArgumentParser

from ultimate_jobs.management.asking import ask
from ultimate_jobs.management.verb import Answer, Options, Verb
from ultimate_jobs.operate import retention


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="count what would be deleted, up to a cap"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _purge(options: Options) -> Answer:
    if options["dry_run"]:
        return Answer({"dry_run": True, "purged": retention.expired()})
    if not options["yes"]:
        ask("This would delete what is past its retention.")
    return Answer({"dry_run": False, "purged": retention.purge()})


VERBS = (
    Verb(
        name="purge",
        help="delete what is past its retention now, as the hourly task does",
        arguments=_arguments,
        run=_purge,
        screen="overview.purged",
    ),
)
