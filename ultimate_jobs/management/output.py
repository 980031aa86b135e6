"""How every verb speaks: a document or a drawing on standard output, messages on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO, cast

from django.db import DatabaseError, InterfaceError, OperationalError, ProgrammingError
from django.utils.module_loading import import_string

from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.errors import DriverUnavailable, JobsError, UsageInvalid
from ultimate_jobs.management.options import unreachable

if TYPE_CHECKING:
    from rich.console import Console

_SCREENS = "ultimate_jobs.management.screens."
WIDTH_OF_A_PIPE = 200

DATABASE_ERRORS = (OperationalError, InterfaceError, ProgrammingError, Unreachable)
"""What is the database's fault, or that of its tables, and no bug."""


def as_json(document: Mapping[str, Any]) -> str:
    """Write a document as JSON text.

    ASCII comes through every pipe; of its control characters JSON leaves only one as it is.
    """
    return json.dumps(document).replace("\x7f", "\\u007f")


def error_document(error: JobsError) -> dict[str, Any]:
    """Answer an error as the document that is printed instead of the one asked for."""
    return {"error": {"code": error.code, "cause": error.cause, "fix": error.fix}}


def exit_code(error: JobsError) -> int:
    """Answer how the command ends that met this error: 2 for a wrong command line, or else 1."""
    return 2 if isinstance(error, UsageInvalid) else 1


def named(error: Exception) -> JobsError:
    """Give an error of the database a name and a fix."""
    if isinstance(error, ProgrammingError | DatabaseError) and not isinstance(
        error, OperationalError | InterfaceError
    ):
        return DriverUnavailable(
            "The tables of the jobs are not as this version needs them.",
            fix="Run: manage.py migrate ultimate_jobs",
        )
    return unreachable()


def drawn(screen: str, document: Mapping[str, Any], console: Console) -> None:
    """Draw a document for people."""
    console.print(import_string(_SCREENS + screen)(document))


def taken_over(live: str, options: Mapping[str, Any], console: Console) -> None:
    """Let a live screen have the terminal."""
    import_string(_SCREENS + live)(console, options)


def console_on(stdout: object, *, plain: bool) -> Console:
    """Open a console over a command's output; nothing is cut where no terminal has a width."""
    console: Console = import_string("rich.console.Console")(
        file=cast("TextIO", stdout),
        color_system=None if plain else "auto",
        highlight=False,
        width=None if sys.stdout.isatty() else WIDTH_OF_A_PIPE,
    )
    return console
