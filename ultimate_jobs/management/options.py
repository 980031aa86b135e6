"""Options that several commands have."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta

from ultimate_jobs.core.durations import duration
from ultimate_jobs.core.jsonform import NotStorable, canonical
from ultimate_jobs.errors import DriverUnavailable


def positive(text: str) -> int:
    """Read a whole number from 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number from 1")
    return number


def stored(text: str) -> str:
    """Read text that may stand in a row."""
    try:
        canonical(text)
    except NotStorable:
        raise ArgumentTypeError("this text cannot be stored") from None
    return text


def names(text: str) -> list[str]:
    """Read names separated by commas."""
    found = [name.strip() for name in stored(text).split(",") if name.strip()]
    if not found:
        raise ArgumentTypeError("name at least one, separated by commas")
    return list(dict.fromkeys(found))


def count(text: str) -> int:
    """Read a whole number from 0."""
    return 0 if text == "0" else positive(text)


def span(text: str) -> timedelta:
    """Read a duration, such as ``60s`` or ``1h30m``."""
    try:
        return duration(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} {error}") from None


def whoami() -> str | None:
    """Answer the login name of whoever runs the command; ``None`` when there is none."""
    try:
        return stored(getpass.getuser())
    except (KeyError, OSError, ImportError, ArgumentTypeError):
        return None


def unreachable() -> DriverUnavailable:
    """Say that the database did not answer."""
    return DriverUnavailable("The database that holds the jobs did not answer.")


def add_json(parser: ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument(
        "--json", action="store_true", help="print exactly one JSON document on standard output"
    )
