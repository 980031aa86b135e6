"""Commands that run beside the measurement, and what the kernel says of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PATIENCE = 600.0
"""Seconds after which something that must happen is given up."""

_pause = threading.Event()


def pause(seconds: float) -> None:
    """Do nothing for a while."""
    _pause.wait(max(0.0, seconds))


def wait_for(what: str, happened: Callable[[], bool], *, every: float = 0.005) -> None:
    """Look again and again, ``every`` so many seconds, until it happened.

    Raises:
        TimeoutError: it did not within ``PATIENCE``.

    """
    until = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} did not happen in {PATIENCE:.0f} s")
        pause(every)


def cpu_seconds(pid: int) -> float:
    """Answer the processor time that a process has taken, with its ended children's."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


def cpu_seconds_of_all(pid: int) -> float:
    """Answer the same, with that of its living children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    spent = cpu_seconds(pid)
    for child in children:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            spent += cpu_seconds(int(child))
    return spent


class Process:
    """A command that runs until it is stopped; its output goes to a file."""

    def __init__(
        self, *words: str, folder: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *words],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid = self._process.pid

    def wait_until_said(self, word: str) -> None:
        """Wait until it has written this."""
        wait_for(word, lambda: self.lives and word in self._log.read_text(errors="replace"))

    @property
    def lives(self) -> bool:
        """Answer True.

        Raises:
            RuntimeError: it has ended by itself.

        """
        if self._process.poll() is not None:
            raise RuntimeError(f"a process ended:\n{self._log.read_text(errors='replace')[-3000:]}")
        return True

    def stop(self) -> None:
        """Tell it to end, and wait until it has."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()

    def cpu_seconds(self) -> float:
        """Answer the processor time that it has taken, with its ended children's."""
        return cpu_seconds(self.pid)

    def proportional_mb(self) -> float:
        """Answer its memory, what it shares divided among those that share it."""
        return self._kilobytes("smaps_rollup", "Pss:") / 1024

    def resident_mb(self) -> float:
        """Answer its resident memory."""
        return self._kilobytes("status", "VmRSS:") / 1024

    def open_files(self) -> int:
        """Answer how many files and sockets it holds."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def threads(self) -> int:
        """Answer how many threads it has."""
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def _kilobytes(self, file: str, word: str) -> int:
        text = Path(f"/proc/{self.pid}/{file}").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(word))
