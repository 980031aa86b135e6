"""What the demo shows while it runs: bars on a terminal, a line a second anywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Screen(Protocol):
    def say(self, text: str) -> None: ...
    def show(self, *, sent: int, done: int) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def open_screen(*, orders: int, checkouts: int) -> Screen:
    kind = Bars if sys.stdout.isatty() else Lines
    return kind(orders=orders, checkouts=checkouts)


class Bars:
    """Two bars that move, and what happens above them."""

    def __init__(self, *, orders: int, checkouts: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(highlight=False),
        )
        self._sent = self._progress.add_task("orders sent", total=orders)
        self._done = self._progress.add_task("checkouts done", total=checkouts)

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False)

    def show(self, *, sent: int, done: int) -> None:
        self._progress.update(self._sent, completed=sent)
        self._progress.update(self._done, completed=done)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()


class Lines:
    """Plain lines, for logs and pipes."""

    def __init__(self, *, orders: int, checkouts: int) -> None:
        self._orders = orders
        self._checkouts = checkouts
        self._started = time.monotonic()
        self._shown = 0

    def say(self, text: str) -> None:
        print(text, flush=True)

    def show(self, *, sent: int, done: int) -> None:
        second = int(time.monotonic() - self._started)
        if second > self._shown:
            self._shown = second
            self.say(
                f"{second:3} s  orders sent {sent}/{self._orders}"
                f"  checkouts done {done}/{self._checkouts}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
