"""Run the soak: `python -m testproject.soak`, or for as long as you like: `... --for 600`.

SOAK_SEED=n repeats the one that said so; SOAK_JOBS and SOAK_SECONDS change its size and its patience.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import django

from testproject.postgres.server import Server
from testproject.soak.plan import Length


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m testproject.soak")
    parser.add_argument("--for", dest="seconds", type=float, metavar="SECONDS")
    chaos: float | None = parser.parse_args().seconds
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    seed = int(os.environ.get("SOAK_SEED") or random.SystemRandom().randrange(1_000_000))
    jobs = None if chaos else int(os.environ.get("SOAK_JOBS") or 20_000)
    length = Length(jobs, chaos or 0.0, float(os.environ.get("SOAK_SECONDS") or 165))
    print(f"SOAK_SEED={seed} repeats these jobs and these moments.", flush=True)
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "testproject.soak.settings",
        "DEBUG": "0",
        "LOG_LEVEL": "WARNING",
    }
    with _a_server() as server:
        django.setup()
        # Models can be imported only now.
        from testproject.soak.story import soak  # noqa: PLC0415

        code = soak(server, length, seed=seed)
    sys.exit(code)


@contextmanager
def _a_server() -> Iterator[Server]:
    """Run a server with a folder of its own inside the block, and leave nothing of it."""
    folder = Path(tempfile.mkdtemp(prefix="ultimate_jobs-soak-"))
    server = Server(folder / "postgres")
    try:
        server.hold()
        os.environ["DATABASE_URL"] = server.url
        os.environ.pop("DATABASE_NAME", None)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
