"""The story of the soak, from top to bottom."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from random import Random
from typing import NoReturn

from django.core.management import call_command
from django.db import connection  # noqa: TID251

from testproject.demo.processes import ProcessEndedError
from testproject.postgres.server import Server
from testproject.soak import facts
from testproject.soak.audit import RULES, Facts, audit
from testproject.soak.chaos import CONCURRENCY, Chaos, endless_moments, moments
from testproject.soak.payer import Payer
from testproject.soak.plan import Length, plan
from testproject.soak.producers import OUTAGE, Producers

PRODUCERS = 3
MOST_AHEAD = 2_000
# The bodies' connections, the dispatcher's, the heartbeat's, and two of the wake.
CONNECTIONS_OF_A_PROCESS = CONCURRENCY + 4
MEGABYTES_OF_A_PROCESS = 250
SHOWN = 5
"""How much of what breaks a rule is printed."""


def soak(server: Server, length: Length, *, seed: int) -> int:
    """Run the soak on a server that runs, print its verdict and answer the exit code."""
    story = Story(server, length, seed=seed)
    hard_stop = threading.Timer(length.limit + 10, story.die)
    hard_stop.daemon = True
    hard_stop.start()
    call_command("migrate", verbosity=0)
    connections = sum(facts.connections().values())
    unfinished: str | None = "it was interrupted"
    try:
        unfinished = story.play()
    finally:
        exits = story.end()
    code = story.verdict(connections, exits, unfinished)
    hard_stop.cancel()
    return code


class Story:
    """What happens between the first transaction and the last job."""

    def __init__(self, server: Server, length: Length, *, seed: int) -> None:
        dice = Random(seed)  # noqa: S311 - dice that can be thrown again
        self._seed, self._length = seed, length
        self._began = time.monotonic()
        going_wrong = endless_moments(dice) if length.jobs is None else iter(moments(dice))
        self._chaos = Chaos(server, dice, going_wrong, self._say)
        self._producers = Producers(
            plan(length.jobs, Random(seed)),  # noqa: S311
            threads=PRODUCERS,
            ahead=min((length.jobs or MOST_AHEAD * 10) // 10, MOST_AHEAD),
        )
        self._payer = Payer()
        self._tick = threading.Event()
        self._shown = 0
        self._most_connections = 0
        self._peak_mb = 0

    def play(self) -> str | None:
        """Bring the work and the chaos until everything has ended; answer why it did not."""
        self._chaos.start()
        self._payer.start()
        self._producers.start()
        while True:
            try:
                if self._is_over():
                    return None
            except ProcessEndedError as error:
                return str(error)
            except OUTAGE:
                connection.close()
            if self._passed > self._length.limit:
                return f"not over after {self._length.limit:g} s"
            self._tick.wait(0.1)

    def end(self) -> dict[str, int]:
        """Stop everything that runs; answer how the processes ended."""
        self._chaos.calm_down()
        self._producers.stop()
        self._payer.stop()
        return self._chaos.processes.stop()

    def verdict(self, connections: int, exits: Mapping[str, int], unfinished: str | None) -> int:
        """Audit, print the figures as the last line, and answer the exit code."""
        seconds = self._passed
        producers = self._producers
        broken = audit(
            Facts(
                committed=producers.committed,
                rolled_back=producers.rolled_back,
                rows=facts.rows(),
                minutes=facts.minutes(),
                staged=facts.staged(),
                effects=facts.effects(),
                leases=facts.leases_in_force(),
                orphans=facts.orphans(),
                connections=(connections, facts.connections_left(connections)),
                most_connections=self._most_connections,
                connection_limit=CONNECTIONS_OF_A_PROCESS,
                peak_mb=self._peak_mb,
                memory_limit_mb=MEGABYTES_OF_A_PROCESS,
                exits=exits,
                unfinished=unfinished,
            )
        )
        for rule in (rule.__name__ for rule in RULES):
            found = broken.get(rule)
            shown = f"BROKEN {len(found)} times: {'; '.join(found[:SHOWN])}" if found else "holds"
            self._say(f"{rule}: {shown}")
        return self._print(seconds, sorted(broken))

    def die(self) -> NoReturn:
        """End at once: whatever hangs must not keep the verdict back."""
        for process in list(self._chaos.processes.running.values()):
            process.kill()
        self._print(self._passed, ["in_time"])
        os._exit(1)

    @property
    def _passed(self) -> float:
        return time.monotonic() - self._began

    def _is_over(self) -> bool:
        """Look at how far it is, show it, and do what goes wrong now."""
        all_brought, now = self._producers.is_over, facts.progress()
        committed = len(self._producers.committed)
        self._producers.ended = now.ended
        self._look_at_the_processes()
        if self._passed > self._shown:
            self._shown = int(self._passed) + (1 if self._length.jobs else 10)
            self._say(f"committed {committed}, ended {now.ended}, unfinished {now.unfinished}")
        self._chaos.go_on(self._length.rounds(now.ended, self._passed))
        if self._length.is_enough(self._passed):
            self._producers.begin_no_more()
        return all_brought and not now.unfinished

    def _look_at_the_processes(self) -> None:
        known = {f"soak-{pid}" for pid in self._chaos.pids()}
        counts = [count for name, count in facts.connections().items() if name in known]
        self._most_connections = max([self._most_connections, *counts])
        self._peak_mb = max(self._peak_mb, facts.peak_mb([os.getpid(), *self._chaos.pids()]))

    def _say(self, text: str) -> None:
        print(f"{self._passed:5.1f} s  {text}", flush=True)

    def _print(self, seconds: float, broken: list[str]) -> int:
        """Print the figures as one line of JSON; answer the exit code."""
        producers, chaos = self._producers, self._chaos.counts
        figures = {
            "seed": self._seed,
            "jobs": self._length.jobs,
            "committed": len(producers.committed),
            "rolled_back": len(producers.rolled_back),
            "transactions_retried": producers.retried,
            "commits_resolved": producers.resolved,
            "kills": chaos["kill"],
            "freezes": chaos["freeze"],
            "restarts": chaos["restart"],
            "most_connections": self._most_connections,
            "peak_mb": self._peak_mb,
            "seconds": round(seconds, 1),
            "jobs_per_second": round(len(producers.committed) / seconds),
            "broken": broken,
        }
        print(json.dumps(figures), flush=True)
        return 1 if broken else 0
