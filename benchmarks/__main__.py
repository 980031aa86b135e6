"""Run one benchmark by its name, in a database of its own."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import django

from testproject import postgres


def run(name: str, *words: str) -> None:
    """Make the database, run the benchmark, print its lines, remove the database."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    postgres.serve()
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
    run(*sys.argv[1:])
