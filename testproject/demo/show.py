"""The story of the demo, from top to bottom."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from random import Random
from uuid import UUID

from testproject.demo import database
from testproject.demo.audit import Audit, Books, Deed, Told, audit
from testproject.demo.carrier import Carrier, books
from testproject.demo.processes import ProcessEndedError, Processes
from testproject.demo.screen import Counts, Screen, open_screen
from testproject.demo.traffic import Traffic, some_orders
from testproject.demo.watch import held_by, progress, what_hangs

ORDERS = 1_000
REFUSE_EVERY = 10
CLIENTS = 4
KILLS = 4
WORKERS = 2
PARTNER_SECONDS = 0.02
PATIENCE_SECONDS = float(os.environ.get("DEMO_SECONDS") or 120)
WORKER = ("manage.py", "jobs_worker", "--queues", "default", "--concurrency", "12")


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the story happens."""

    processes: Processes
    web: int
    partners: int


def show(*, keep: bool, seed: int) -> int:
    """Run the demo, print its verdict and answer the exit code."""
    started = time.monotonic()
    print(f"DEMO_SEED={seed} repeats these orders and these kills.", flush=True)
    with stage(keep=keep) as place:
        story = Story(place, Random(seed))  # noqa: S311 - dice that can be thrown again
        with open_screen(story.expected) as screen:
            story.play(screen)
        found = story.audit()
        if keep:
            _explain(place)
        else:
            _say_how_they_ended(place.processes.stop())
    return _verdict(story, found, time.monotonic() - started)


@contextmanager
def stage(*, keep: bool) -> Iterator[Stage]:
    """Set everything up and, unless it is kept and all went well, take it down again."""
    processes = Processes()
    try:
        database.create()
        partners = processes.start_partners(seconds=PARTNER_SECONDS)
        web = processes.start_web()
        processes.start("relay", "manage.py", "jobs_relay")
        for number in range(1, WORKERS + 1):
            processes.start(f"worker-{number}", *WORKER)
        yield Stage(processes, web, partners)
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            processes.stop()
            database.drop()


class Story:
    """What happens between the first order and the last checkout."""

    def __init__(self, place: Stage, dice: Random) -> None:
        orders = some_orders(ORDERS, refuse_every=REFUSE_EVERY, dice=dice)
        good = [order for order in orders if not order.fail]
        hopeless = sum(order.is_hopeless for order in good)
        self.expected = Counts(sent=ORDERS, done=len(good) - hopeless, compensated=hopeless)
        self.traffic = Traffic(place.web, orders, clients=CLIENTS)
        self._carrier = Carrier(shop=place.web, partners=place.partners, seed=dice.random())
        self._processes = place.processes
        self._partners = place.partners
        self._dice = dice
        # How many orders are sent plus how many checkouts have ended, when a worker is killed. Later
        # than halfway most checkouts only wait, and a worker may hold none of them at any look.
        self._moments = sorted(dice.sample(range(100, ORDERS + len(good) // 2), KILLS))
        self._interrupted: dict[UUID, int] = {}
        self._killed: list[int] = []
        self._tick = threading.Event()

    @property
    def worker_killed(self) -> bool:
        return len(self._killed) == KILLS

    @property
    def surprises(self) -> list[str]:
        return self.traffic.surprises + self._carrier.surprises

    def play(self, screen: Screen) -> None:
        """Send the orders, kill workers on the way and wait for the last checkout."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        self.traffic.start()
        self._carrier.start()
        while not self._is_over(screen):
            try:
                self._processes.ensure_all_run()
            except ProcessEndedError as error:
                screen.say(str(error))
                break
            if time.monotonic() > give_up:
                screen.say(f"Not over after {PATIENCE_SECONDS:g} s: giving up.")
                for line in what_hangs():
                    screen.say(line)
                break
            self._tick.wait(0.1)
        self._carrier.stop()

    def audit(self) -> Audit:
        told = Told(self.traffic.accepted, self.traffic.refused, self._interrupted)
        charges, parcels = (
            [
                Deed(deed["reference"], deed["key"], deed["undone"])
                for deed in books(self._partners, path)
            ]
            for path in ("/charges", "/shipments")
        )
        return audit(told, Books(charges, parcels))

    def _is_over(self, screen: Screen) -> bool:
        """Look at how far it is, show it, and kill a worker if it is time for that."""
        is_all_sent, sent, now = self.traffic.is_over, self.traffic.sent, progress()
        screen.show(Counts(sent=sent, done=now.done, compensated=now.undone))
        self._note_what_the_dead_hold()
        if self._moments and sent + now.ended >= self._moments[0]:
            self._kill_a_worker(screen)
        return is_all_sent and not now.unfinished

    def _kill_a_worker(self, screen: Screen) -> None:
        """Kill a worker that holds jobs, if it does just now, and start another."""
        victim = self._dice.choice(sorted(self._workers()))
        with self._processes.paused(victim) as pid:
            held = held_by(pid)
            if not held:
                return
            self._processes.kill(victim)
        self._moments.pop(0)
        self._killed.append(pid)
        self._interrupted |= held
        successor = f"worker-{WORKERS + len(self._killed)}"
        self._processes.start(successor, *WORKER)
        screen.say(
            f"Killed {victim} (process {pid}) while it ran {len(held)} jobs; started {successor}."
        )

    def _note_what_the_dead_hold(self) -> None:
        """Read it until their leases lapse: a claim that was under way outlives who made it."""
        for pid in self._killed:
            self._interrupted |= held_by(pid)

    def _workers(self) -> list[str]:
        return [name for name in self._processes.running if name.startswith("worker-")]


def _explain(place: Stage) -> None:
    name, password = database.create_operator()
    running = place.processes.running
    print(f"Still running: {', '.join(running)}")
    print(f"  an order    http://127.0.0.1:{place.web}/orders/demo-0001/")
    print(f"  the admin   http://127.0.0.1:{place.web}/admin/ as {name} with {password}")
    print(f"  the gateway http://127.0.0.1:{place.partners}/charges")
    print(f"  the carrier http://127.0.0.1:{place.partners}/shipments")
    print(f"  the logs    {place.processes.logs}")
    print(f"  to end it   kill {' '.join(str(process.pid) for process in running.values())}")


def _say_how_they_ended(codes: dict[str, int]) -> None:
    print("Ended:", ", ".join(f"{name} with {code}" for name, code in codes.items()))


def _verdict(story: Story, found: Audit, seconds: float) -> int:
    """Print the verdict as the last line and answer the exit code."""
    for surprise in story.surprises[:10]:
        print("Unexpected:", surprise)
    is_good = (
        story.worker_killed
        and found.is_clean
        and found.interrupted_and_resumed > 0
        and found.committed + found.rolled_back == story.traffic.sent == ORDERS
    )
    counted = {"sent": story.traffic.sent} | asdict(found)
    verdict = counted | {"worker_killed": story.worker_killed, "seconds": round(seconds, 1)}
    print(json.dumps(verdict), flush=True)
    return 0 if is_good else 1
