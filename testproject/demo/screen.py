"""What the demo shows while it runs: bars on a terminal, a line a second anywhere else."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@dataclass(frozen=True, slots=True)
class Counts:
    """Orders that were sent, checkouts that are done, checkouts that were undone."""

    sent: int
    done: int
    compensated: int


class Screen(Protocol):
    def say(self, text: str) -> None: ...
    def show(self, now: Counts) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def open_screen(expected: Counts) -> Screen:
    return Bars(expected) if sys.stdout.isatty() else Lines(expected)


class Bars:
    """Bars that move, and what happens above them."""

    def __init__(self, expected: Counts) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(highlight=False),
        )
        self._sent = self._progress.add_task("orders sent", total=expected.sent)
        self._done = self._progress.add_task("delivered", total=expected.done)
        self._compensated = self._progress.add_task("compensated", total=expected.compensated)

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False)

    def show(self, now: Counts) -> None:
        self._progress.update(self._sent, completed=now.sent)
        self._progress.update(self._done, completed=now.done)
        self._progress.update(self._compensated, completed=now.compensated)

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

    def __init__(self, expected: Counts) -> None:
        self._expected = expected
        self._started = time.monotonic()
        self._shown = 0

    def say(self, text: str) -> None:
        print(text, flush=True)

    def show(self, now: Counts) -> None:
        second = int(time.monotonic() - self._started)
        if second > self._shown:
            self._shown = second
            self.say(
                f"{second:3} s  orders sent {now.sent}/{self._expected.sent}"
                f"  delivered {now.done}/{self._expected.done}"
                f"  compensated {now.compensated}/{self._expected.compensated}"
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
