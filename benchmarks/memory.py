"""What a worker process keeps of the jobs that it has run, with DEBUG on.

    python -m benchmarks memory --scale 0.1

A real ``jobs_worker`` with four bodies runs jobs that do one query each and carry 20 kB: at scale 1 first
20,000, then 180,000 more. After both, and after an idle minute of polls every 10 ms, its resident memory,
open files and threads are printed. Then four bodies rest, and whoever holds a transaction meanwhile is.
It reads ``/proc``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.builders import settings_of, sql

FIRST, ALL, IDLE_SECONDS = 20_000, 200_000, 60.0
BODIES = 4
REST_SECONDS = 5

FILL = """
INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, max_attempts, run_at, state,
                    attempt, claim)
SELECT gen_random_uuid(), gen_random_uuid(), %s, 'default', 0, to_jsonb(repeat(md5(n::text), 640)),
       n::text, 1, now(), 'ready', 0, 0
  FROM generate_series(%s, %s) AS n
"""
HOLDERS = """
SELECT count(*)
  FROM pg_stat_activity
 WHERE datname = current_database()
   AND backend_type = 'client backend'
   AND pid <> pg_backend_pid()
   AND (state LIKE 'idle in transaction%%' OR xact_start < now() - interval '1 second')
"""


def main(*words: str) -> Iterator[str]:
    """Run the worker, and say what it has at each stage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks memory")
    parser.add_argument("--scale", type=float, default=1.0, help="of the jobs and the idle time")
    scale = parser.parse_args(words).scale
    first, all_of_them = round(FIRST * scale), round(ALL * scale)
    with _worker() as pid:
        _run("benchmarks.look", 1, first)
        before = _resident(pid)
        yield f"after {first:,} jobs: {_facts(pid)}"
        _run("benchmarks.look", first + 1, all_of_them)
        yield f"after {all_of_them:,} jobs: {_facts(pid)}; {_resident(pid) - before:+.1f} MB"
        threading.Event().wait(IDLE_SECONDS * scale)
        yield f"after {IDLE_SECONDS * scale:.0f} s of polls in vain: {_facts(pid)}"
        yield f"{_most_holders()} connections held a transaction while {BODIES} bodies rested"


@contextmanager
def _worker() -> Iterator[int]:
    """Run a worker over the benchmark's database inside the block."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "benchmarks.memory_settings",
        "DATABASE_NAME": str(settings_of()["NAME"]),
    }
    words = [sys.executable, "manage.py", "jobs_worker", "--concurrency", str(BODIES)]
    process = subprocess.Popen(words, env=environment)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _run(name: str, first: int, last: int) -> None:
    sql(FILL, [name, first, last])
    _wait_for("SELECT NOT EXISTS (SELECT 1 FROM x_jobs WHERE state IN ('ready', 'running'))")


def _wait_for(question: str) -> None:
    pause = threading.Event()
    while sql(question) != [(True,)]:
        pause.wait(0.2)


def _most_holders() -> int:
    """Let bodies rest, and answer how many connections held a transaction at most meanwhile."""
    sql(FILL, ["benchmarks.rest", 1, BODIES])
    _wait_for(f"SELECT count(*) = {BODIES} FROM x_jobs WHERE state = 'running'")  # noqa: S608 - a constant
    until, most = time.monotonic() + REST_SECONDS / 2, 0
    while time.monotonic() < until:
        most = max(most, int(sql(HOLDERS)[0][0]))
    return most


def _facts(pid: int) -> str:
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    return f"{_resident(pid):.1f} MB resident, {files} open files, {threads} threads"


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024
