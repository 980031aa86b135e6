"""Verbs that say how this installation works: ``config sql``."""

from __future__ import annotations

from argparse import ArgumentParser

from ultimate_jobs.management.options import names, positive
from ultimate_jobs.management.verb import Answer, Options, Verb
from ultimate_jobs.operate.configuration import effective
from ultimate_jobs.operate.statements import statement, statement_names


def _config_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--queues", type=names, help="as a worker would be given it")
    parser.add_argument("--concurrency", type=positive, help="as a worker would be given it")


def _config(options: Options) -> Answer:
    flags = {name: options[name] for name in ("queues", "concurrency")}
    return Answer({"settings": effective(flags)})


def _sql_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", help="such as claim or queue/claim; lists all without it"
    )


def _sql(options: Options) -> Answer:
    name = options["name"]
    return Answer({"statements": statement_names()} if name is None else statement(name))


VERBS = (
    Verb(
        name="config",
        help="show every setting in force, and where it comes from",
        arguments=_config_arguments,
        run=_config,
        screen="declared.settings",
    ),
    Verb(
        name="sql",
        help="print the statements that are sent",
        arguments=_sql_arguments,
        run=_sql,
        screen="declared.statements",
    ),
)
