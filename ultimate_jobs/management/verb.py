"""What a verb of ``manage.py jobs`` is: how it is asked, what it answers, how that is drawn.

The command does the rest alike for all: ``--json``, errors, exit codes. To add a verb, put a ``Verb`` into
the ``VERBS`` of a module in ``management/verbs`` and a function that draws its document into
``management/screens``; a new module is named once, in ``management/commands/jobs.py``.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a verb answers: one JSON-ready document, and the exit code."""

    document: Mapping[str, Any]
    code: int = 0


def nothing(parser: ArgumentParser) -> None:
    """Add no arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """One verb.

    Attributes:
        name, help: as the command line shows them.
        arguments: adds the options besides ``--json``.
        run: does it; raises ``JobsError`` for what is refused.
        screen: ``module.function`` below ``management.screens``: draws the document for people. It is
            imported only when it is needed.
        live: ``module.function`` that takes over the terminal instead, given the options.
        verbs: verbs below this one; then it has neither arguments nor a run of its own.

    """

    name: str
    help: str
    arguments: Callable[[ArgumentParser], None] = nothing
    run: Callable[[Options], Answer] | None = None
    screen: str = ""
    live: str | None = None
    verbs: tuple[Verb, ...] = field(default=())
