"""Who waits in this process for jobs to end: while somebody does, it listens for word of that.

Word is a hint that saves a look. Whoever waits says so over the same channel (``asking_for``), and
the worker that ends the job answers with its id; nobody is told of a job that nobody waits for.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from ultimate_jobs.core.records import Topic
from ultimate_jobs.drivers.base import Driver, Listening
from ultimate_jobs.process.idle import Backoff
from ultimate_jobs.process.log import event

RECEIVE_FOR = 60.0
"""Seconds after which a session that hears nothing is asked again."""

GIVE_UP_AFTER = 2.0
"""Seconds that the last one who waits stays for a thread that hangs in the network."""

_ASKING = "?"

Ring = Callable[[], object]


def asking_for(job: UUID) -> str:
    """Answer the word that asks to be told when a job has ended."""
    return f"{job}{_ASKING}"


def asked_for(word: str) -> UUID | None:
    """Answer the job that a word asks for, if it asks for one."""
    with suppress(ValueError):
        return UUID(word.removesuffix(_ASKING)) if word.endswith(_ASKING) else None
    return None


class Waits:
    """The waits of a process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know of nobody: a forked process has the waits of its parent, and none of its threads."""
        self._lock = threading.Lock()
        self._rings: dict[str, list[Ring]] = {}
        self._hearing: Hearing | None = None

    @contextmanager
    def waiting(self, driver: Driver, job: UUID, ring: Ring) -> Iterator[None]:
        """Ring, inside the block, when there is reason to look how a job stands."""
        self.enter(driver, job, ring)
        try:
            yield
        finally:
            self.leave(job, ring)

    def enter(self, driver: Driver, job: UUID, ring: Ring) -> None:
        """Ring from now on; ``ring`` is called on another thread and must not wait."""
        with self._lock:
            self._rings.setdefault(str(job), []).append(ring)
            if self._hearing is None:
                self._hearing = Hearing(driver, self._heard, self._ring_all)
                self._hearing.start()

    def leave(self, job: UUID, ring: Ring) -> None:
        """Ring no more. The last one hangs up."""
        with self._lock:
            rings = self._rings[str(job)]
            rings.remove(ring)
            if not rings:
                del self._rings[str(job)]
            hearing = None
            if not self._rings:
                hearing, self._hearing = self._hearing, None
        if hearing is not None:
            hearing.stop()

    def _heard(self, word: str) -> None:
        with self._lock:
            rings = list(self._rings.get(word, ()))
        _call(rings)

    def _ring_all(self) -> None:
        with self._lock:
            rings = [ring for rings in self._rings.values() for ring in rings]
        _call(rings)


def _call(rings: list[Ring]) -> None:
    for ring in rings:
        with suppress(RuntimeError):  # the event loop of one that waited is closed
            ring()


class Hearing:
    """A session that listens for results, on a thread of its own.

    Args:
        driver: where the word comes from.
        heard: called with every word.
        begun: called whenever words are heard from now on: earlier ones were not.

    """

    def __init__(
        self, driver: Driver, heard: Callable[[str], None], begun: Callable[[], None]
    ) -> None:
        self._driver = driver
        self._heard = heard
        self._begun = begun
        self._session: Listening | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._listen, name="ultimate_jobs-results", daemon=True
        )

    def start(self) -> None:
        """Start listening; while that is not possible, whoever waits looks by himself."""
        self._thread.start()

    def stop(self) -> None:
        """Hang up."""
        self._ended.set()
        session = self._session
        if session is not None:
            with suppress(OSError):  # it has just hung up by itself
                session.interrupt()
        self._thread.join(GIVE_UP_AFTER)

    def _listen(self) -> None:
        pause = Backoff()
        while not self._ended.is_set():
            try:
                self._attend()
            except Exception as error:  # noqa: BLE001 - whatever keeps it from hearing leaves the looks
                event(logging.DEBUG, "jobs.results.unheard", error=type(error).__name__)
                self._ended.wait(pause.failed())
        self._driver.close()

    def _attend(self) -> None:
        session = self._session = self._driver.wake.listen(Topic.RESULTS)
        try:
            self._begun()
            while not self._ended.is_set():
                for notice in session.receive(RECEIVE_FOR):
                    self._heard(notice.text)
        finally:
            self._session = None
            session.close()


waits = Waits()
os.register_at_fork(after_in_child=waits.forget)
