"""What Django's system checks find out about a backend."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning as Concern

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.spec import checked_name
from ultimate_jobs.errors import ConfigInvalid, DeclarationInvalid
from ultimate_jobs.tasks.discovery import late, unimportable

KNOWN_OPTIONS = ("max_attempts", "modules")


def check_backend(
    alias: str, queues: Collection[str], options: Mapping[str, Any]
) -> list[CheckMessage]:
    """List everything that is wrong, or may be, with a backend of ``TASKS``."""
    return [
        *_options(alias, options),
        *_queues(alias, queues),
        *_database(alias),
        *_modules(alias),
    ]


def _options(alias: str, options: Mapping[str, Any]) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for key in options:
        if key not in KNOWN_OPTIONS:
            near = difflib.get_close_matches(str(key), KNOWN_OPTIONS, n=1)
            meant = f"; did you mean '{near[0]}'?" if near else "."
            found.append(_wrong(f"TASKS['{alias}']['OPTIONS'] has an unknown key '{key}'{meant}"))
    attempts, modules = options.get("max_attempts", 1), options.get("modules", [])
    if type(attempts) is not int or not 1 <= attempts <= 1_000_000:
        found.append(
            _wrong(
                f"TASKS['{alias}']['OPTIONS']['max_attempts'] must be a whole number from 1 to "
                "1,000,000."
            )
        )
    if not isinstance(modules, list | tuple) or not all(isinstance(m, str) for m in modules):
        found.append(
            _wrong(f"TASKS['{alias}']['OPTIONS']['modules'] must be a list of dotted paths.")
        )
    return found


def _wrong(what: str) -> Error:
    return Error(what, hint="Correct TASKS in the settings.", id="ultimate_jobs.E006")


def _queues(alias: str, queues: Collection[str]) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for queue in sorted(map(str, queues)):
        try:
            checked_name(f"TASKS['{alias}']['QUEUES']: a queue name", queue)
        except DeclarationInvalid as error:
            found.append(_wrong(error.cause))
    try:
        served = get_settings().queues
    except ConfigInvalid:
        return found  # reported as E001
    unserved = sorted(set(map(str, queues)) - set(served))
    if unserved:
        found.append(
            Concern(
                f"A worker serves the queues {', '.join(unserved)} of TASKS['{alias}'] only when "
                "--queues names them.",
                hint="Name them in ULTIMATE_JOBS['QUEUES'], or start a worker for them and silence "
                "this.",
                id="ultimate_jobs.W002",
            )
        )
    return found


def _database(alias: str) -> list[CheckMessage]:
    try:
        ours = get_settings().database
    except ConfigInvalid:
        return []
    others = sorted(set(django_settings.DATABASES) - {ours, get_settings().wake_database})
    if not others:
        return []
    return [
        Concern(
            f"Tasks of TASKS['{alias}'] are stored in the database '{ours}': an enqueue in a "
            f"transaction of {' or '.join(others)} alone is refused, since it could not roll back "
            "with it.",
            hint=f"Enqueue inside transaction.atomic(using='{ours}'), or after the other one's "
            "commit, and silence this.",
            id="ultimate_jobs.W003",
        )
    ]


def _modules(alias: str) -> list[CheckMessage]:
    broken: list[CheckMessage] = [
        Error(
            f"TASKS['{alias}']['OPTIONS']['modules']: '{module}' cannot be imported: {why}",
            hint="Correct TASKS in the settings.",
            id="ultimate_jobs.E006",
        )
        for module, why in sorted(unimportable.get(alias, {}).items())
    ]
    return broken + [
        Concern(
            f"The task '{declared.task.module_path}' is in a module that workers do not import by "
            "themselves: a worker that does not know it leaves it waiting.",
            hint="Move it to the tasks module of an installed app, or name its module in "
            f"TASKS['{alias}']['OPTIONS']['modules'].",
            obj=declared.task.module_path,
            id="ultimate_jobs.W004",
        )
        for declared in late(alias)
    ]
