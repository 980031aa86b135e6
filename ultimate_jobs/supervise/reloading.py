"""``--reload``: the same command again in a process of its own, and another one when code changes.

This process watches, passes signals on, and works on nothing. What it starts is told by a variable
that somebody watches; it is drained before another one takes its place.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sysconfig
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from django.apps import apps
from django.utils import autoreload

from ultimate_jobs.process.log import event
from ultimate_jobs.process.signals import DUMP, QUIET, STOP, Reaction, handling

WATCHED = "JOBS_RELOAD_LIFE"
"""Names, for a process that was started by this one, the pipe that ends with this one."""


def life_of_watcher() -> int | None:
    """Take the pipe that ends with the process that watches this one, if one does."""
    named = os.environ.pop(WATCHED, "")
    if not named.isdecimal():
        return None
    life = int(named)
    os.set_inheritable(life, False)
    return life


@dataclass(frozen=True, slots=True)
class _Told:
    signal: signal.Signals


@dataclass(frozen=True, slots=True)
class _Changed:
    path: str


@dataclass(frozen=True, slots=True)
class _Ended:
    code: int


class Reloader:
    """Runs this process's own command line in a child, as often as its code changes."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[_Told | _Changed | _Ended] = SimpleQueue()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._again = False

    def run(self) -> int:
        """Watch until told to stop; answer the exit code of the last child."""
        react: Reaction = lambda name: self._inbox.put(_Told(signal.Signals[name]))  # noqa: E731
        numbers = dict.fromkeys((*STOP, signal.SIGQUIT, *QUIET, *DUMP), react)
        life = os.pipe()
        autoreload.file_changed.connect(self._file_changed)
        try:
            with handling(numbers):
                threading.Thread(target=_watch, name="ultimate_jobs-watcher", daemon=True).start()
                return self._supervise(life[0])
        finally:
            autoreload.file_changed.disconnect(self._file_changed)
            for end in life:
                os.close(end)

    def _supervise(self, life: int) -> int:
        self._start(life)
        while True:
            match self._inbox.get():
                case _Told(number) if self._child is not None:
                    self._pass_on(self._child, number)
                case _Told(number):
                    if number in (*STOP, signal.SIGQUIT):
                        return 0
                case _Changed(path):
                    event(logging.INFO, "jobs.reload.changed", path=path)
                    self._renew(life)
                case _Ended(code):
                    self._child = None
                    if self._stopping:
                        return _told(code)
                    self._after(code, life)

    def _renew(self, life: int) -> None:
        """Have the child drain, so that another takes its place; start one where there is none."""
        if self._child is None:
            self._start(life)
        elif not self._again:
            self._again = True
            self._child.send_signal(signal.SIGTERM)

    def _after(self, code: int, life: int) -> None:
        if self._again or code == 0:
            self._start(life)
        else:  # it would only fail again
            event(logging.ERROR, "jobs.reload.waiting", code=code)

    def _pass_on(self, child: subprocess.Popen[bytes], number: signal.Signals) -> None:
        """Have the child do the same; it does not count, so the second request is another one."""
        if number in STOP:
            number = signal.SIGQUIT if self._stopping else signal.SIGTERM
        self._stopping = self._stopping or number in (signal.SIGTERM, signal.SIGQUIT)
        child.send_signal(number)

    def _start(self, life: int) -> None:
        self._again = False
        child = subprocess.Popen(  # noqa: S603 - this process's own command line
            autoreload.get_child_arguments(),
            env={**os.environ, WATCHED: str(life)},
            pass_fds=[life],
        )
        self._child = child
        threading.Thread(
            target=lambda: self._inbox.put(_Ended(child.wait())),
            name="ultimate_jobs-waiter",
            daemon=True,
        ).start()

    def _file_changed(self, *, file_path: Path, **kwargs: Any) -> bool:
        """Take the change over from Django, which would end this process."""
        self._inbox.put(_Changed(str(file_path)))
        return True


def _told(code: int) -> int:
    """Answer the exit code that tells of a child's end."""
    if code == -signal.SIGTERM:
        return 0  # it was not up yet, and held nothing
    return 1 if code < 0 else code


def _watch() -> None:
    """Watch what Django would, and every Python file of the project's own apps."""
    reloader = autoreload.get_reloader()
    for folder in _own_folders(sysconfig.get_paths()):
        reloader.watch_dir(folder, "**/*.py")
    reloader.run(threading.main_thread())


def _own_folders(installed: Mapping[str, str]) -> list[Path]:
    foreign = tuple({Path(installed["purelib"]), Path(installed["platlib"])})
    folders = [Path(app.path) for app in apps.get_app_configs()]
    return [one for one in folders if not any(one.is_relative_to(other) for other in foreign)]
