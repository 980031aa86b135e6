"""Real processes over the test's database, and the file in which their bodies leave traces."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from django.db.models.functions import Now

from tests.builders import a_job, wait_until
from tests.commands.project import Project
from ultimate_jobs.models import Job as JobRow, Lease, Worker as WorkerRow

PATIENCE = 120.0
"""Seconds for what needs the start of a process or the end of a lease."""


class Process:
    """A command that runs beside the test."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self._popen = popen
        self._said = ""
        self._lines: list[str] = []
        self._reader: threading.Thread | None = None

    def tell(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def ended(self) -> int:
        """Wait for the end; answer the exit code, or minus the signal that killed it."""
        if self._reader is None:
            _, self._said = self._popen.communicate(timeout=PATIENCE)
        else:
            self._popen.wait(PATIENCE)
            self._reader.join(PATIENCE)
            self._said = "".join(self._lines)
        return self._popen.returncode

    def follow(self) -> None:
        """Read what it logs from now on, so that it can be asked for while it runs."""
        assert self._popen.stderr is not None
        read = partial(self._lines.extend, self._popen.stderr)
        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()

    def wait_for_line(self, words: str) -> None:
        """Wait until a line with these words was logged; it is followed."""
        wait_until(lambda: any(words in line for line in self._lines), PATIENCE, what=words)

    def killed(self) -> None:
        """Kill it in the middle of whatever it does."""
        self.tell(signal.SIGKILL)
        assert self.ended() == -signal.SIGKILL

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def ended_already(self) -> bool:
        return self._popen.poll() is not None

    def said(self, words: str) -> str:
        """Read on until a line with these words; answer it."""
        assert self._popen.stderr is not None
        return next(line for line in self._popen.stderr if words in line)

    @property
    def log(self) -> str:
        """What it had logged when it ended."""
        return self._said


class Scene:
    """A folder of traces, and the processes that leave them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._health = folder / "health"
        self._project = Project(
            {"DJANGO_SETTINGS_MODULE": "tests.scenarios.settings", "PROBE_FOLDER": str(folder)}
        )

    @contextmanager
    def running(self, *words: str, **env: str) -> Iterator[Process]:
        """Run a command inside the block; it does not outlive it."""
        with self._project.start(*words, **env) as popen:
            try:
                yield Process(popen)
            finally:
                if popen.poll() is None:
                    popen.kill()

    @contextmanager
    def worker(self, *words: str, **env: str) -> Iterator[Process]:
        with self.running("jobs_worker", "--concurrency", "2", *words, **env) as process:
            yield process

    @contextmanager
    def supervised(self, *words: str, processes: int = 2, **env: str) -> Iterator[Process]:
        """Run several worker processes, a body each, and wait until all take work."""
        at_once = ("--processes", str(processes), "--concurrency", "1")
        health = ("--health", str(self._health))
        with self.running("jobs_worker", *at_once, *health, *words, **env) as process:
            self.wait_for_health(ready=True)
            yield process

    def health(self) -> dict[str, Any]:
        """Read what the processes last said of themselves; nothing before they did."""
        try:
            found: dict[str, Any] = json.loads(self._health.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def wait_for_health(self, **facts: object) -> None:
        wait_until(
            lambda: facts.items() <= self.health().items(), PATIENCE, what=f"the health {facts}"
        )

    def pids(self) -> dict[str, int | None]:
        """Answer which process fills each place."""
        return {one["name"]: one["pid"] for one in self.health()["processes"]}

    @contextmanager
    def scheduler(self, **env: str) -> Iterator[Process]:
        with self.running("jobs_scheduler", **env) as process:
            yield process

    def done(self, *words: str) -> str:
        """Run a command to its good end; answer its output."""
        answer = self._project.manage(*words)
        assert answer.code == 0, answer.err
        return answer.out

    def queued(
        self, name: str, *, attempts: int = 3, key: str = "a", lease_key: str | None = None
    ) -> JobRow:
        """Queue one job of the probe."""
        return a_job(
            name=f"probe.{name}",
            idempotency_key=key,
            input={"key": key},
            max_attempts=attempts,
            lease_key=lease_key,
        )

    def ledger(self) -> list[dict[str, Any]]:
        """Read every move of every body, in order."""
        try:
            text = (self._folder / "ledger").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines()]

    def moves(self) -> list[tuple[str, int]]:
        return [(line["what"], line["attempt"]) for line in self.ledger()]

    def wait_for(self, what: str, attempt: int = 1, *, times: int = 1) -> None:
        wait_until(
            lambda: self.moves().count((what, attempt)) >= times,
            PATIENCE,
            what=f"'{what}' of {attempt}",
        )

    def leases_run_out(self) -> None:
        """Let the time of every claim, slot and sign of life be over, as the database sees it."""
        JobRow.objects.filter(state="running").update(visible_at=Now())
        WorkerRow.objects.update(expires_at=Now())
        Lease.objects.update(expires_at=Now())

    def wait_for_file(self, name: str) -> None:
        wait_until((self._folder / name).exists, PATIENCE, what=f"the file {name}")

    def let_scheduler_go(self) -> None:
        (self._folder / "go-scheduler").touch()

    def let_go(self, attempt: int = 1, key: str = "a") -> None:
        (self._folder / f"go-{key}-{attempt}").touch()
