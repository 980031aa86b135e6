"""``manage.py jobs``: look at jobs and act on them."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser, SystemCheckError

from ultimate_jobs.errors import ChecksFailed, JobsError, UsageInvalid
from ultimate_jobs.management import output
from ultimate_jobs.management.options import add_json
from ultimate_jobs.management.verb import Verb
from ultimate_jobs.management.verbs import (
    acting,
    explaining,
    keeping,
    looking,
    measuring,
    pausing,
    scheduling,
)

VERBS: Sequence[Verb] = (
    *looking.VERBS,
    *acting.VERBS,
    *pausing.VERBS,
    *scheduling.VERBS,
    *keeping.VERBS,
    *measuring.VERBS,
    *explaining.VERBS,
)


class Command(BaseCommand):
    help = (
        "Look at jobs and act on them. Exits 0; 1 when what was asked for is not there, is refused "
        "or is unhealthy; 2 on a wrong option."
    )
    requires_system_checks = ("ultimate_jobs",)
    _asked_for_json = False

    def add_arguments(self, parser: CommandParser) -> None:
        self._let_misuse_be_a_document(parser)
        self._add_verbs(parser, VERBS)

    def _add_verbs(self, parser: ArgumentParser, verbs: Iterable[Verb], depth: int = 1) -> None:
        parsers = parser.add_subparsers(dest=f"verb_{depth}", required=True, metavar="VERB")
        for verb in verbs:
            below = parsers.add_parser(verb.name, help=verb.help, description=verb.help)
            self._let_misuse_be_a_document(below)
            if verb.verbs:
                self._add_verbs(below, verb.verbs, depth + 1)
                continue
            verb.arguments(below)
            add_json(below)
            below.set_defaults(chosen=verb)

    def run_from_argv(self, argv: list[str]) -> None:
        self._asked_for_json = "--json" in argv[2:]
        super().run_from_argv(argv)

    def check(self, *args: Any, **kwargs: Any) -> None:
        try:
            # No database is looked at: what is wrong with it, the verb itself says.
            super().check(*args, **{"databases": [], **kwargs})
        except SystemCheckError as error:
            if not self._asked_for_json:
                raise
            self.stderr.write(str(error), lambda text: text)
            self._refuse(ChecksFailed("The system checks found an error."), as_json=True)

    def handle(self, *args: Any, chosen: Verb, **options: Any) -> None:
        try:
            code = self._run(chosen, options)
        except JobsError as error:
            self._refuse(error, as_json=options["json"])
        except output.DATABASE_ERRORS as error:
            self._refuse(output.named(error), as_json=options["json"])
        except BrokenPipeError:
            # Whoever read the output has seen enough; the interpreter must not flush into nothing.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 1
        if code:
            sys.exit(code)

    def _run(self, verb: Verb, options: Mapping[str, Any]) -> int:
        if verb.live is not None and not options["json"]:
            console = output.console_on(self.stdout, plain=options["no_color"])
            output.taken_over(verb.live, options, console)
            return 0
        if verb.run is None:
            raise UsageInvalid(f"{verb.name} needs one of its verbs.")
        answer = verb.run(options)
        if options["json"]:
            self.stdout.write(output.as_json(answer.document))
        else:
            console = output.console_on(self.stdout, plain=options["no_color"])
            output.drawn(verb.screen, answer.document, console)
        return answer.code

    def _refuse(self, error: JobsError, *, as_json: bool) -> NoReturn:
        code = output.exit_code(error)
        if as_json:
            self.stdout.write(output.as_json(output.error_document(error)))
            sys.exit(code)
        raise CommandError(str(error), returncode=code)

    def _let_misuse_be_a_document(self, parser: ArgumentParser) -> None:
        """Print a wrong command line as a document too, where one was asked for."""
        ordinary = parser.error

        def misused(message: str) -> NoReturn:
            if self._asked_for_json:
                self.stderr.write(f"{parser.prog}: error: {message}", lambda text: text)
                self._refuse(UsageInvalid(f"{message[:1].upper()}{message[1:]}."), as_json=True)
            ordinary(message)

        vars(parser)["error"] = misused
