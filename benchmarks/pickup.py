"""How long an idle worker takes from a commit to the first line of a body.

    python -m benchmarks.pickup [--count 100]

A real ``jobs_worker`` and a real ``jobs_relay`` process wait over the test project's database.
Jobs come one at a time, 200 to 400 ms apart: directly, then staged in a transaction. Printed are
milliseconds from the return of the commit, as p50, p95 and the longest.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import django

PATIENCE = 30.0


@contextmanager
def running(*words: str) -> Iterator[None]:
    """Run a command of the project inside the block, from when it is told of new work."""
    command = [sys.executable, "manage.py", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        log = process.stderr or ()
        if not any("jobs.wake.live" in line for line in log):
            raise SystemExit(f"{words[0]} ended before it was told of anything")
        threading.Thread(target=list, args=(log,), daemon=True).start()
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def pickup(arrivals: socket.socket, enqueue: Callable[[str], object], count: int) -> list[float]:
    """Enqueue one job at a time; answer the milliseconds from each commit to its body."""
    dice, pause = random.Random(7), threading.Event()
    waits: list[float] = []
    for number in range(count):
        pause.wait(dice.uniform(0.2, 0.4))
        enqueue(f"{os.getpid()}-{number}")
        committed = time.monotonic_ns()
        began = int(arrivals.recv(64))
        waits.append((began - committed) / 1e6)
    return waits


def line(name: str, waits: list[float]) -> str:
    """Say what was measured."""
    cuts = statistics.quantiles(waits, n=20, method="inclusive")
    return f"{name:<12} p50 {cuts[9]:6.2f}   p95 {cuts[18]:6.2f}   max {max(waits):6.2f}"


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description="Measure the pickup of jobs by an idle worker.")
    options.add_argument("--count", type=int, default=100, help="jobs for each way in")
    count = options.parse_args().count
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.pickup_settings"
    django.setup()
    from django.core.management import call_command
    from django.db import transaction

    from benchmarks.pickup_app.jobs import arrive

    def staged(key: str) -> None:
        with transaction.atomic():
            arrive.enqueue(f"staged-{key}")

    call_command("migrate", verbosity=0)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["PICKUP_SOCKET"] = str(folder / "arrivals")
        arrivals = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        arrivals.bind(os.environ["PICKUP_SOCKET"])
        arrivals.settimeout(PATIENCE)
        stack.enter_context(running("jobs_worker"))
        stack.enter_context(running("jobs_relay"))
        sys.stdout.write(line("direct", pickup(arrivals, arrive.enqueue, count)) + "\n")
        sys.stdout.write(line("outbox", pickup(arrivals, staged, count)) + "\n")


if __name__ == "__main__":
    main()
