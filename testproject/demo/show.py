"""The story of the demo, from top to bottom."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from uuid import UUID

from testproject.demo import database
from testproject.demo.audit import Audit, Told, audit, completed, held_by, unfinished
from testproject.demo.processes import ProcessEndedError, Processes
from testproject.demo.screen import Screen, open_screen
from testproject.demo.traffic import Traffic

ORDERS = 1_000
REFUSE_EVERY = 10
CLIENTS = 4
KILL_AFTER = 300
PATIENCE_SECONDS = 120
WORKER = ("manage.py", "jobs_worker", "--queues", "default", "--concurrency", "8")


def show(*, keep: bool) -> int:
    """Run the demo, print its verdict and answer the exit code."""
    started = time.monotonic()
    with stage(keep=keep) as (processes, port):
        story = Story(processes, port)
        with open_screen(orders=ORDERS, checkouts=ORDERS - ORDERS // REFUSE_EVERY) as screen:
            story.play(screen)
        found = story.audit()
        if keep:
            _explain(processes, port)
        else:
            _say_how_they_ended(processes.stop())
    return _verdict(story, found, time.monotonic() - started)


@contextmanager
def stage(*, keep: bool) -> Iterator[tuple[Processes, int]]:
    """Set everything up and, unless it is kept and all went well, take it down again."""
    processes = Processes()
    try:
        database.create()
        port = processes.start_web()
        processes.start("relay", "manage.py", "jobs_relay")
        processes.start("worker-1", *WORKER)
        processes.start("worker-2", *WORKER)
        yield processes, port
    except BaseException:
        keep = False
        raise
    finally:
        if not keep:
            processes.stop()
            database.drop()


class Story:
    """What happens between the first order and the last checkout."""

    def __init__(self, processes: Processes, port: int) -> None:
        self._processes = processes
        self._killed: int | None = None
        self._interrupted: frozenset[UUID] = frozenset()
        self._tick = threading.Event()
        self.traffic = Traffic(port, ORDERS, refuse_every=REFUSE_EVERY, clients=CLIENTS)

    @property
    def worker_killed(self) -> bool:
        return self._killed is not None

    def play(self, screen: Screen) -> None:
        """Send the orders, kill a worker on the way and wait for the last checkout."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        self.traffic.start()
        while not self._is_over():
            try:
                self._processes.ensure_all_run()
            except ProcessEndedError as error:
                screen.say(str(error))
                return
            if time.monotonic() > give_up:
                screen.say(f"Not over after {PATIENCE_SECONDS} s: giving up.")
                return
            self._take_a_step(screen)
            self._tick.wait(0.1)
        screen.show(sent=self.traffic.sent, done=completed())

    def audit(self) -> Audit:
        accepted, refused = self.traffic.accepted, self.traffic.refused
        return audit(Told(accepted, refused, self._interrupted))

    def _is_over(self) -> bool:
        return self.traffic.is_over and not unfinished()

    def _take_a_step(self, screen: Screen) -> None:
        done = completed()
        screen.show(sent=self.traffic.sent, done=done)
        if self._killed is not None:
            # What it was claiming when it died can become visible after its death.
            self._interrupted |= held_by(self._killed)
        elif done >= KILL_AFTER:
            self._kill_a_worker(screen)

    def _kill_a_worker(self, screen: Screen) -> None:
        """Kill a worker that holds jobs, if it does just now, and start another."""
        with self._processes.paused("worker-1") as pid:
            held = held_by(pid)
            if not held:
                return
            self._processes.kill("worker-1")
        self._killed, self._interrupted = pid, held
        self._processes.start("worker-3", *WORKER)
        screen.say(
            f"Killed worker-1 (process {pid}) while it ran {len(held)} jobs; started worker-3."
        )


def _explain(processes: Processes, port: int) -> None:
    name, password = database.create_operator()
    pids = " ".join(str(process.pid) for process in processes.running.values())
    print(f"Still running: {', '.join(processes.running)}")
    print(f"  an order  http://127.0.0.1:{port}/orders/demo-0001/")
    print(f"  the admin http://127.0.0.1:{port}/admin/ as {name} with {password}")
    print(f"  the logs  {processes.logs}")
    print(f"  to end it kill {pids}")


def _say_how_they_ended(codes: dict[str, int]) -> None:
    print("Ended:", ", ".join(f"{name} with {code}" for name, code in codes.items()))


def _verdict(story: Story, found: Audit, seconds: float) -> int:
    """Print the verdict as the last line and answer the exit code."""
    for surprise in story.traffic.surprises[:10]:
        print("Unexpected answer to", surprise)
    is_good = (
        story.worker_killed
        and found.committed + found.rolled_back == story.traffic.sent == ORDERS
        and found.completed == found.committed
        and found.ghosts == found.lost == found.duplicates == 0
    )
    counted = {"sent": story.traffic.sent} | asdict(found)
    verdict = counted | {"worker_killed": story.worker_killed, "seconds": round(seconds, 1)}
    print(json.dumps(verdict), flush=True)
    return 0 if is_good else 1
