"""Bodies that wait, crash and do not listen."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import connection  # noqa: TID251 - what bodies leave is written by plain statements

from ultimate_jobs import NO_TENANT, Concurrency, Retry, Run, Settled, job
from ultimate_jobs.definitions.task import Entries, task

FOLDER = Path(os.environ["PROBE_FOLDER"])


@dataclass(frozen=True, slots=True)
class Probe:
    key: str


DECLARED: dict[str, Any] = {
    "input": Probe,
    "tenant": NO_TENANT,
    "idempotency_key": lambda i: i.key,
    "retry": Retry(attempts=3, delay="1ms"),
}


def note(run: Run[Probe], what: str) -> None:
    """Write a move down; it stays written whatever becomes of this process."""
    write(key=run.input.key, what=what, attempt=run.attempt, final=run.final_attempt)


def write(**facts: Any) -> None:
    line = {**facts, "pid": os.getpid()}
    with (FOLDER / "ledger").open("ab", buffering=0) as ledger:
        ledger.write(json.dumps(line).encode() + b"\n")


def is_let_go(run: Run[Probe]) -> bool:
    return (FOLDER / f"go-{run.input.key}-{run.attempt}").exists()


@job(**DECLARED)
def tick(run: Run[Probe]) -> None:
    note(run, "ran")


@job(**DECLARED)
def crash(run: Run[Probe]) -> None:
    """Take the process along."""
    note(run, "started")
    os.kill(os.getpid(), signal.SIGKILL)


@job(**DECLARED)
def patient(run: Run[Probe]) -> str:
    """Wait to be let go, and stop when told to."""
    note(run, "started")
    while not is_let_go(run):
        run.signal.wait(0.02)
        run.signal.raise_if_aborted()
    note(run, "finished")
    return f"of attempt {run.attempt}"


@job(**DECLARED)
def stubborn(run: Run[Probe]) -> str:
    """Wait to be let go, whatever one is told."""
    note(run, "started")
    run.signal.on_abort(lambda reason: note(run, f"told {reason.code}"))
    while not is_let_go(run):
        threading.Event().wait(0.02)
    note(run, "finished")
    return f"of attempt {run.attempt}"


def settled(ending: Settled[Probe]) -> None:
    write(key=ending.input.key if ending.input else "", what=ending.outcome, attempt=0)


@job(**DECLARED, concurrency=1, on_settled=settled)
def alone(run: Run[Probe]) -> str:
    """Wait to be let go, whatever one is told; take a step, and end as PROBE_END says."""
    note(run, "started")
    while not is_let_go(run):
        threading.Event().wait(0.02)
    try:
        run.step("step", lambda: run.attempt)
    except Exception:  # noqa: BLE001 - it must come to its own end
        note(run, "refused")
    note(run, "finished")
    if os.environ.get("PROBE_END") == "raises":
        raise LookupError("too late")
    return f"of attempt {run.attempt}"


@job(**DECLARED, concurrency=Concurrency(key=lambda value: value.key[0], limit=2))
def pair(run: Run[Probe]) -> None:
    """Write down from when to when it lived, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO probe_lives (key, pid, began) VALUES (%s, %s, clock_timestamp())"
            " RETURNING id",
            [run.input.key[0], os.getpid()],
        )
        (life,) = cursor.fetchone()
        threading.Event().wait(0.05)
        cursor.execute("UPDATE probe_lives SET ended = clock_timestamp() WHERE id = %s", [life])


def each_minute(occurrence: datetime) -> Entries:
    """Tick; where PROBE_HOLD is set, only once it is let go."""
    if "PROBE_HOLD" in os.environ:
        (FOLDER / "held").touch()
        while not (FOLDER / "go-scheduler").exists():
            threading.Event().wait(0.02)
    return [(tick, Probe(f"{occurrence:%H:%M}"))]


MINUTELY = [
    task(
        name=f"probe.minute_{number}",
        cron="* * * * *",
        tz="UTC",
        enqueue=each_minute,
        catch_up="run-all",
    )
    for number in range(5)
]
