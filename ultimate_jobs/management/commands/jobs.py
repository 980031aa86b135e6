"""``manage.py jobs``: look at jobs and act on them."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError
from rich.console import Console, RenderableType

from ultimate_jobs.core.states import JobState
from ultimate_jobs.errors import JobsError
from ultimate_jobs.management import tasks
from ultimate_jobs.management.options import add_json, positive, stored, unreachable
from ultimate_jobs.management.tables import job_details, job_table
from ultimate_jobs.operate import inspection, verbs


class Command(BaseCommand):
    help = "Look at jobs and act on them. Exits 0, 1 when what was asked for is not there, 2 on a wrong option."

    def add_arguments(self, parser: CommandParser) -> None:
        parsers = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        listing = parsers.add_parser("list", help="list jobs, newest first")
        listing.add_argument("--queue", type=stored, help="only this queue")
        listing.add_argument("--name", type=stored, help="only this job")
        listing.add_argument("--state", choices=[state.value for state in JobState])
        listing.add_argument("--tenant", type=stored, help="only this tenant")
        listing.add_argument("--limit", type=positive, default=inspection.DEFAULT_JOB_PAGE)
        cursor = listing.add_mutually_exclusive_group()
        cursor.add_argument("--after", metavar="ID", help="the page after this job")
        cursor.add_argument("--before", metavar="ID", help="the page before this job")
        add_json(listing)
        show = parsers.add_parser("show", help="show one job")
        show.add_argument("id", help="the job's id, also while it is staged")
        retry = parsers.add_parser("retry", help="make a finished job due now")
        retry.add_argument("id", help="the job's id")
        retry.add_argument("--from-step", metavar="STEP", help="forget this step and all after it")
        cancel = parsers.add_parser("cancel", help="cancel a live job")
        cancel.add_argument("id", help="the job's id")
        cancel.add_argument("--reason", help="kept as the job's error")
        resolve = parsers.add_parser("resolve-step", help="say how a step in doubt ended")
        resolve.add_argument("id", help="the job's id")
        resolve.add_argument("step", help="the step's name")
        how = resolve.add_mutually_exclusive_group(required=True)
        how.add_argument("--ran", action="store_true", help="its function took effect")
        how.add_argument("--not-ran", action="store_true", help="it did not; it may run")
        resolve.add_argument("--output", metavar="JSON", help="what the step answered, with --ran")
        for command in (show, retry, cancel, resolve):
            add_json(command)
        tasks.add_arguments(parsers)

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        try:
            self._do(verb, options)
        except JobsError as error:
            self._refuse(error, as_json=options["json"])
        except OperationalError:
            self._refuse(unreachable(), as_json=options["json"])

    def _do(self, verb: str, options: dict[str, Any]) -> None:
        match verb:
            case "list":
                return self._list(**options)
            case "tasks":
                return self._tasks(options)
            case "retry":
                verbs.retry_job(options["id"], options["from_step"])
            case "cancel":
                verbs.cancel_job(options["id"], options["reason"])
            case _:
                verbs.resolve_step(
                    options["id"], options["step"], ran=options["ran"], output=options["output"]
                )
        return self._show(**options)

    def _list(self, *, json: bool, state: str | None, limit: int, **options: Any) -> None:
        wanted = inspection.Filter(
            queue=options["queue"],
            name=options["name"],
            state=JobState(state) if state else None,
            tenant=options["tenant"],
            limit=limit,
            after=options["after"],
            before=options["before"],
        )
        jobs = inspection.list_jobs(wanted)
        if json:
            self._document({"jobs": jobs, "counts": inspection.state_counts()})
        else:
            self._print(job_table(jobs, inspection.state_counts()), plain=options["no_color"])

    def _show(self, *, json: bool, id: str, **options: Any) -> None:  # noqa: A002 - argparse's name
        job = inspection.show_job(id)
        if json:
            self._document(job)
        else:
            self._print(job_details(job), plain=options["no_color"])

    def _tasks(self, options: dict[str, Any]) -> None:
        document = tasks.run(options)
        if options["json"]:
            self._document(document)
        else:
            self._print(tasks.rendered(document), plain=options["no_color"])

    def _document(self, value: object) -> None:
        # ASCII comes through every pipe, and of its control characters JSON leaves only this one.
        self.stdout.write(json.dumps(value).replace("\x7f", "\\u007f"))

    def _print(self, shown: RenderableType, *, plain: bool) -> None:
        console = Console(
            file=cast("TextIO", self.stdout),
            color_system=None if plain else "auto",
            highlight=False,
            width=_width(),
        )
        console.print(shown)

    def _refuse(self, error: JobsError, *, as_json: bool) -> None:
        if as_json:
            self._document({"error": {"code": error.code, "cause": error.cause, "fix": error.fix}})
            sys.exit(1)
        raise CommandError(str(error), returncode=1)


def _width() -> int | None:
    """Leave the width to a terminal; anywhere else nothing is cut."""
    return None if sys.stdout.isatty() else 200
