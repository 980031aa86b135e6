"""What goes wrong: processes are killed or frozen, and the server goes down, at moments of the work."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from testproject.demo.processes import Processes
from testproject.postgres.server import Server

WORKERS = 4
RELAYS = 2
SCHEDULERS = 2
CONCURRENCY = 8
KILLS = 16
FREEZES = 6
RESTARTS = 3
LEASE_SECONDS = 5.0
FROZEN_SECONDS = LEASE_SECONDS + 1.5
COMMANDS = {
    "worker": ("manage.py", "jobs_worker", "--concurrency", str(CONCURRENCY)),
    "relay": ("manage.py", "jobs_relay"),
    "scheduler": ("manage.py", "jobs_scheduler"),
}


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """What goes wrong once so many rounds, and such a share of the next, are over."""

    share: float
    what: str


def moments(dice: Random) -> list[Moment]:
    """Spread everything that goes wrong over a round; the restarts keep apart."""
    kills = [Moment(dice.uniform(0.05, 0.9), "kill") for _ in range(KILLS)]
    freezes = [Moment(dice.uniform(0.05, 0.75), "freeze") for _ in range(FREEZES)]
    part = 0.85 / RESTARTS
    restarts = [
        Moment(0.05 + part * number + dice.uniform(0, part / 2), "restart")
        for number in range(RESTARTS)
    ]
    return sorted([*kills, *freezes, *restarts])


def endless_moments(dice: Random) -> Iterator[Moment]:
    """Go on with another round, for ever."""
    for number in count():
        yield from (replace(one, share=number + one.share) for one in moments(dice))


class Chaos:
    """The workers and relays, and what is done to them."""

    def __init__(
        self,
        server: Server,
        dice: Random,
        going_wrong: Iterator[Moment],
        say: Callable[[str], None],
    ) -> None:
        self.processes = Processes()
        self.counts = {"kill": 0, "freeze": 0, "restart": 0}
        self._server = server
        self._dice = dice
        self._say = say
        self._moments = going_wrong
        self._next = next(going_wrong, None)
        self._frozen: dict[str, float] = {}
        self._started = dict.fromkeys(COMMANDS, 0)

    def start(self) -> None:
        for role, number in (("worker", WORKERS), ("relay", RELAYS), ("scheduler", SCHEDULERS)):
            for _ in range(number):
                self._start(role)

    def go_on(self, share: float) -> None:
        """Do what is due when so many rounds and such a share of the next are over."""
        self._thaw(lambda until: until <= time.monotonic())
        self.processes.ensure_all_run()
        while self._next is not None and self._next.share <= share:
            what = self._next.what
            {"kill": self._kill, "freeze": self._freeze, "restart": self._restart}[what]()
            self.counts[what] += 1
            self._next = next(self._moments, None)

    def calm_down(self) -> None:
        """Let whatever is frozen go on."""
        self._thaw(lambda until: True)

    def pids(self) -> Sequence[int]:
        return [process.pid for process in self.processes.running.values()]

    def _start(self, role: str) -> str:
        self._started[role] += 1
        name = f"{role}-{self._started[role]}"
        self.processes.start(name, *COMMANDS[role])
        return name

    def _victim(self) -> str:
        return self._dice.choice(sorted(self.processes.running.keys() - self._frozen.keys()))

    def _kill(self) -> None:
        victim = self._victim()
        self.processes.kill(victim)
        self._say(f"killed {victim}, started {self._start(victim.partition('-')[0])}")

    def _freeze(self) -> None:
        victim = self._victim()
        self.processes.running[victim].send_signal(signal.SIGSTOP)
        self._frozen[victim] = time.monotonic() + FROZEN_SECONDS
        self._say(f"froze {victim}")

    def _thaw(self, is_due: Callable[[float], bool]) -> None:
        for name in [name for name, until in self._frozen.items() if is_due(until)]:
            del self._frozen[name]
            self.processes.running[name].send_signal(signal.SIGCONT)
            self._say(f"thawed {name}")

    def _restart(self) -> None:
        self._server.crash()
        self._server.hold()
        self._say("crashed the server and started it again")
