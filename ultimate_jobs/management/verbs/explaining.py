"""Verbs that say how this installation works: ``config sql``."""

from __future__ import annotations

from argparse import ArgumentParser

from ultimate_jobs.conf import get_settings
from ultimate_jobs.management import options as every
from ultimate_jobs.management.verb import Answer, Options, Verb
from ultimate_jobs.operate.configuration import effective
from ultimate_jobs.operate.statements import statement, statement_names


def _config_arguments(parser: ArgumentParser) -> None:
    for option in every.OF_SETTINGS:
        option.add_to(parser)


def _config(options: Options) -> Answer:
    settings = get_settings()
    found = every.effective(every.OF_SETTINGS, options, settings)
    said: dict[str, tuple[object, str]] = {
        str(option.setting): (found[option.name].value, found[option.name].origin)
        for option in every.OF_SETTINGS
        if found[option.name].origin in {option.flag, *option.variables}
    }
    queues = found["queues"]
    if isinstance(queues.value, every.Queues) and queues.value.parts:
        said["queue_concurrency"] = (every.parts_of_queues(queues.value, settings), queues.origin)
    return Answer({"settings": effective(said)})


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
