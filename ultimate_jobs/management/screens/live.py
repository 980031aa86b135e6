"""A screen that stays and is drawn again, until a key ends it."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ultimate_jobs.management.screens.overview import whole
from ultimate_jobs.operate.overview import overview

Pause = Callable[[float], bool]


def watch(console: Console, options: Mapping[str, Any]) -> None:
    """Draw the overview again and again; ends on q, on ctrl-c, or after ``--count`` looks."""
    every, most = options["every"].total_seconds(), options["count"]
    with suppress(KeyboardInterrupt), _keys() as quit_within:
        if not console.is_terminal:
            _print_each(console, options["period"], most, lambda: quit_within(every))
            return
        with Live(console=console, screen=True, auto_refresh=False) as live:
            looks = 0
            while True:
                live.update(_screen(options["period"], every), refresh=True)
                looks += 1
                if looks == most or quit_within(every):
                    return


def _print_each(console: Console, period: str, most: int | None, ended: Callable[[], bool]) -> None:
    looks = 0
    while True:
        console.print(whole(overview(period)))
        looks += 1
        if looks == most or ended():
            return
        console.print()


def _screen(period: str, every: float) -> RenderableType:
    return Group(whole(overview(period)), Text(""), Text(f"every {every:g} s; q ends", style="dim"))


@contextmanager
def _keys() -> Iterator[Pause]:
    """Answer a pause that a q on the terminal ends, and whether it did."""
    if not sys.stdin.isatty():
        yield _wait
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield _wait_for_q
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _wait(seconds: float) -> bool:
    threading.Event().wait(seconds)
    return False


def _wait_for_q(seconds: float) -> bool:
    terminal = sys.stdin.fileno()
    readable, _, _ = select.select([terminal], [], [], seconds)
    return bool(readable) and b"q" in os.read(terminal, 64).lower()
