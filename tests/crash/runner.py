"""Worker processes that kill themselves: ``python -m tests.crash.runner``.

Reads orders from its input, a line each, forks a worker for each, and answers with a line. A
worker runs until nothing is due; told to, it kills itself right before its n-th statement, or right
after the server has answered it and before the program hears. This process opens no connection, so
what it forks shares none.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import django

PATIENCE = 300
"""Seconds a worker may take; only a failure takes that long."""

Phase = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Order:
    """One worker: killed at a statement, by its number from 0, or left to end by itself."""

    statement: int | None = None
    phase: Phase = "before"


@dataclass(frozen=True, slots=True)
class Answer:
    """How a worker ended: the signal that killed it or 0, and the statements of one that was not."""

    killed_by: int
    statements: list[str] = field(default_factory=list)


def main() -> None:
    """Serve orders until the input ends."""
    django.setup()
    from tests.crash.scenarios import declared_all  # noqa: PLC0415 - models need the setup

    with declared_all():
        for line in sys.stdin:
            answer = _forked(Order(**json.loads(line)))
            sys.stdout.write(json.dumps(asdict(answer)) + "\n")
            sys.stdout.flush()


def _forked(order: Order) -> Answer:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _live(order, writing)
    os.close(writing)
    with os.fdopen(reading) as told:
        statements = told.read()
    _, status = os.waitpid(child, 0)
    killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return Answer(killed_by, json.loads(statements or "[]"))


def _live(order: Order, writing: int) -> None:
    signal.alarm(PATIENCE)
    try:
        os.write(writing, json.dumps(_worked(order)).encode())
    finally:
        os._exit(0)


def _worked(order: Order) -> list[str]:
    from tests.steps.runs import a_worker_of  # noqa: PLC0415
    from tests.steps.wire import ASIDE, Say, hooked  # noqa: PLC0415
    from ultimate_jobs.conf import get_settings  # noqa: PLC0415
    from ultimate_jobs.drivers.handler import get_driver  # noqa: PLC0415
    from ultimate_jobs.enqueue.relay import Relay  # noqa: PLC0415

    seen: list[str] = []
    lock = threading.Lock()

    def die_at(name: str, say: Say) -> Any:
        if name in ASIDE:
            return say()
        with lock:
            is_the_one = len(seen) == order.statement
            seen.append(name)
        if is_the_one and order.phase == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = say()
        if is_the_one:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    with hooked(die_at):
        # With one place a worker claims only between runs: the order of statements is the run's.
        worker = a_worker_of(concurrency=1)
        worker.run(until_idle=True, feed=Relay(get_driver(), get_settings()).drain)
    return seen


if __name__ == "__main__":
    main()
