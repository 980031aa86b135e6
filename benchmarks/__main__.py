"""Choose what to run: the suite, a table of its lines, or one of the other benchmarks."""

from __future__ import annotations

import fileinput
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import django

from benchmarks import capacity, suite
from benchmarks.figures import Figure, parsed
from benchmarks.report import markdown
from benchmarks.server import SERVER, url

IN_A_DATABASE: Final = ("admin", "claims", "operate", "schedule")
"""Modules whose ``main`` answers lines, in the test project with a database that is made for them."""


def main(words: Sequence[str]) -> None:
    """Run what the first word names; without one, the suite."""
    match list(words):
        case [name, *rest] if name in IN_A_DATABASE:
            _in_a_database(name, *rest)
        case ["table", *files]:
            sys.stdout.write(f"{markdown(_read(files).values())}\n")
        case ["capacity", *files]:
            sys.stdout.write(f"{capacity.table(_read(files))}\n")
        case _:
            suite.main(words)


def _read(files: Sequence[str]) -> dict[tuple[str, str], Figure]:
    with fileinput.input(files, encoding="utf-8") as lines:
        return parsed(lines)


def _in_a_database(name: str, *words: str) -> None:
    SERVER.hold()
    os.environ["DATABASE_URL"] = url()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    django.setup()
    from django.test.utils import (
        setup_databases,
        teardown_databases,
    )

    made = setup_databases(verbosity=0, interactive=False)
    try:
        for line in import_module(f"benchmarks.{name}").main(*words):
            sys.stdout.write(f"{line}\n")
    finally:
        teardown_databases(made, verbosity=0)


if __name__ == "__main__":
    main(sys.argv[1:])
