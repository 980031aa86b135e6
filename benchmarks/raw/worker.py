"""The worker of the raw limit: ``python -m benchmarks.raw.worker``.

It takes 500 jobs at a time; the settle of one batch and the claim of the next are one pipelined
transaction. Idle, it waits for word, and looks every five seconds.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

import psycopg

from benchmarks.raw import table
from benchmarks.raw.agent import connect
from benchmarks.ticks import tick

BATCH = 500
LOOK_EVERY = 5.0


def main() -> None:
    """Work until told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    connection, listener = connect(), connect()
    listener.execute("LISTEN job")
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    ran: list[int] = []
    while True:
        rows = _settle_and_claim(connection, ran)
        for _ in rows:
            tick()
        ran = [row[0] for row in rows]
        if not rows:
            for _ in listener.notifies(timeout=LOOK_EVERY, stop_after=1):
                pass


def _settle_and_claim(connection: psycopg.Connection[Any], ran: list[int]) -> list[Any]:
    claim = connection.cursor()
    if not ran:
        return claim.execute(table.CLAIM, ["worker", BATCH]).fetchall()
    with connection.pipeline():
        connection.execute(table.SETTLE, [ran, ["null"] * len(ran)])
        claim.execute(table.CLAIM, ["worker", BATCH])
    return claim.fetchall()


if __name__ == "__main__":
    main()
