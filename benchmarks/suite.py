"""Every row of the table of targets, measured in one run: ours and its limit in turn.

    python -m benchmarks --only drain,enqueue_single

Each figure is a line of JSON on standard output; what is going on, and a table of all in the end, go to
standard error. The same command measures the package of another checkout with ``--checkout``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from rich.console import Console

from benchmarks.bench import Bench
from benchmarks.figures import Figure, chosen
from benchmarks.report import markdown
from benchmarks.scenarios.cost import cost
from benchmarks.scenarios.drain import drain, drain_2
from benchmarks.scenarios.enqueue import enqueue_many, enqueue_single, relay
from benchmarks.scenarios.growth import growth_finished, growth_waiting
from benchmarks.scenarios.idle import idle
from benchmarks.scenarios.large import bloat, growth_5m
from benchmarks.scenarios.memory import memory
from benchmarks.scenarios.pickup import pickup, pickup_outbox
from benchmarks.scenarios.steps import steps
from benchmarks.server import ROOT, SERVER
from benchmarks.sides import Site

Scenario: TypeAlias = Callable[[Bench], Iterator[Figure]]

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "enqueue_single": enqueue_single,
    "enqueue_many": enqueue_many,
    "relay": relay,
    "drain": drain,
    "drain_2": drain_2,
    "pickup": pickup,
    "pickup_outbox": pickup_outbox,
    "steps": steps,
    "idle": idle,
    "growth_finished": growth_finished,
    "growth_waiting": growth_waiting,
    "memory": memory,
}
LONG: Final[Mapping[str, Scenario]] = {"growth_5m": growth_5m, "bloat": bloat, "cost": cost}
"""Measured only when named: they take many minutes."""

ALL: Final = {**SCENARIOS, **LONG}


def main(words: Sequence[str]) -> None:
    """Measure what is asked for, and print it."""
    options = _parser().parse_args(words)
    console = Console(stderr=True)
    figures = []
    with console.status("starting PostgreSQL") as status:
        for figure in _measured(options, status.update):
            figures.append(figure)
            sys.stdout.write(f"{figure.line()}\n")
            sys.stdout.flush()
    sys.stderr.write(f"{markdown(figures)}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure every target beside its limit."
    )
    known = ", ".join(ALL)
    parser.add_argument("--only", type=_names, default="", help=f"with commas: {known}")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of jobs")
    parser.add_argument(
        "--checkout", type=Path, default=ROOT, help="measure the package in this folder"
    )
    return parser


def _names(only: str) -> list[str]:
    try:
        return chosen(only, list(ALL)) if only else list(SCENARIOS)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _measured(options: argparse.Namespace, say: Callable[[str], None]) -> Iterator[Figure]:
    """Measure on a server of our own."""
    SERVER.hold()
    with (
        Site.made(options.checkout) as site,
        Bench.opened(site, repeat=options.repeat, scale=options.scale, say=say) as bench,
    ):
        for name in options.only:

            def say_where(what: str, name: str = name) -> None:
                say(f"{name}: {what}")

            bench.say = say_where
            yield from ALL[name](bench)
