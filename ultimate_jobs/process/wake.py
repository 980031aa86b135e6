"""The listening session of a process: dialled, proven by probes, dialled again when it is lost.

``Listener`` is shared by the loops of a process. It tells them of new work, and whether they may
rely on being told: only while the last probe came back. Whoever is told must look by himself as
well, because word gets lost with a session.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue

from ultimate_jobs.conf import Settings
from ultimate_jobs.core.records import Notice, Topic
from ultimate_jobs.core.spec import MAX_NAME_CHARS
from ultimate_jobs.drivers.base import Driver, Listening, Part, Unreachable
from ultimate_jobs.process.idle import Backoff
from ultimate_jobs.process.log import event

PROBE_EVERY = 30.0
"""Seconds between two probes."""

ANSWER_WITHIN = 5.0
"""Seconds in which a probe must come back."""

GIVE_UP_AFTER = 2.0
"""Seconds that a stop waits for a thread that hangs in the network."""

FIX = (
    "Name an alias with a direct or session-pooled connection in ULTIMATE_JOBS['WAKE_DATABASE']; "
    "a proxy that pools by transaction delivers nothing. Until then idle loops poll."
)


@dataclass(slots=True)
class Probe:
    """A token on its way from the pool of connections to the listening session."""

    asked_at: float
    token: str = field(default_factory=lambda: secrets.token_hex(MAX_NAME_CHARS))
    sent: bool = False
    missing: set[Topic] = field(default_factory=lambda: set(Topic))

    def came_back(self, notice: Notice) -> bool:
        """Take the token off a channel; answer whether that was the last one."""
        if notice.text != self.token or notice.topic not in self.missing:
            return False
        self.missing.discard(notice.topic)
        return not self.missing

    def look_at(self, every: float, within: float) -> float:
        """Answer the instant of the next probe, or that by which this one must be back."""
        return self.asked_at + (within if self.missing else every)


def is_probe(text: str) -> bool:
    """Answer whether a word is somebody's token: it is longer than a queue's name can be."""
    return len(text) > MAX_NAME_CHARS


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A loop that wants to be told. Its functions run on the listener's thread and must not wait.

    Attributes:
        topic: what it wants to hear of.
        heard: called with a queue's name when there is new work in it.
        trusted: called when word is proven to arrive, and when it is not any more.

    """

    topic: Topic
    heard: Callable[[str], None]
    trusted: Callable[[bool], None]


class Listener:
    """Listens for the loops of a process, on threads of its own that ``start`` starts.

    Args:
        driver: where the word comes from.
        subscribers: who is told.
        probe_every: seconds between two probes.
        answer_within: seconds in which one must come back.

    """

    def __init__(
        self,
        driver: Driver,
        subscribers: Sequence[Subscriber],
        *,
        probe_every: float = PROBE_EVERY,
        answer_within: float = ANSWER_WITHIN,
    ) -> None:
        self._driver = driver
        self._every = probe_every
        self._within = answer_within
        self._subscribers = list(subscribers)
        self._live = False
        self._was_live = False
        self._said_lost = False
        self._said_unverified = False
        self._ended = threading.Event()
        self._session: Listening | None = None
        self._probes: SimpleQueue[Probe | None] = SimpleQueue()
        self._lost_session = Backoff(most=probe_every)
        self._deaf_session = Backoff(first=probe_every, most=20 * probe_every)
        self._threads = [
            threading.Thread(target=self._listen, name="ultimate_jobs-wake", daemon=True),
            threading.Thread(target=self._send_probes, name="ultimate_jobs-probe", daemon=True),
        ]

    @property
    def live(self) -> bool:
        """Whether word is proven to arrive."""
        return self._live

    def start(self) -> None:
        """Start listening; what keeps it from that is logged, and tried again."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Hang up."""
        self._ended.set()
        self._probes.put(None)
        session = self._session
        if session is not None:
            session.interrupt()
        for thread in self._threads:
            thread.join(GIVE_UP_AFTER)

    # The listening thread

    def _listen(self) -> None:
        while not self._ended.is_set():
            wait = self._attend()
            self._ended.wait(wait)

    def _attend(self) -> float:
        """Dial and listen until that ends; answer the seconds until the next try."""
        try:
            session = self._session = self._driver.wake.listen()
        except Unreachable as error:
            return self._lost(error)
        except Exception as error:  # noqa: BLE001 - whatever refuses to listen leaves the polling
            return self._deaf(error)
        try:
            return self._hear(session)
        except Exception as error:  # noqa: BLE001 - as above
            return self._lost(error)
        finally:
            self._session = None
            session.close()

    def _hear(self, session: Listening) -> float:
        probe = self._new_probe()
        while not self._ended.is_set():
            until = probe.look_at(self._every, self._within)
            for notice in session.receive(until - time.monotonic()):
                self._on(notice, probe)
            if time.monotonic() < probe.look_at(self._every, self._within):
                continue
            if probe.missing:
                return self._missed(probe, session)
            probe = self._new_probe()
        return 0.0

    def _new_probe(self) -> Probe:
        probe = Probe(time.monotonic())
        self._probes.put(probe)
        return probe

    def _missed(self, probe: Probe, session: Listening) -> float:
        silence = TimeoutError()
        if self._live or not probe.sent:
            return self._lost(silence)
        session.renounce()
        return self._deaf(silence)

    def _on(self, notice: Notice, probe: Probe) -> None:
        if is_probe(notice.text):
            if probe.came_back(notice):
                self._proven()
            return
        for subscriber in self._subscribers:
            if subscriber.topic is notice.topic:
                subscriber.heard(notice.text)

    def _proven(self) -> None:
        self._lost_session.worked()
        self._deaf_session.worked()
        if not self._live:
            event(logging.INFO, "jobs.wake.live")
        self._said_lost = False
        self._was_live = True
        self._trust(live=True)

    def _lost(self, error: Exception) -> float:
        """Rely on polling alone until the session is dialled again and proven."""
        wait = self._lost_session.failed()
        if not self._said_lost:
            event(logging.WARNING, "jobs.wake.lost", error=_name_of(error), next_try_seconds=wait)
            self._said_lost = True
        self._trust(live=False)
        return wait

    def _deaf(self, error: Exception) -> float:
        """Say, once, that nothing arrives; where something once has, try again soon."""
        if not self._said_unverified:
            event(logging.WARNING, "jobs.wake.unverified", error=_name_of(error), fix=FIX)
            self._said_unverified = True
        self._trust(live=False)
        return (self._lost_session if self._was_live else self._deaf_session).failed()

    def _trust(self, *, live: bool) -> None:
        if live is self._live:
            return
        self._live = live
        for subscriber in self._subscribers:
            subscriber.trusted(live)

    # The probing thread: a pool that hangs must not keep word from being heard

    def _send_probes(self) -> None:
        try:
            while (probe := self._newest_probe()) is not None:
                try:
                    self._send(probe)
                except Exception as error:  # noqa: BLE001 - the probe is missed where it should arrive
                    event(logging.DEBUG, "jobs.wake.probe-failed", error=_name_of(error))
        finally:
            self._driver.close()

    def _send(self, probe: Probe) -> None:
        try:
            self._driver.wake.probe(probe.token)
        except Unreachable:  # a connection that rested may have been closed for that
            self._driver.wake.probe(probe.token)
        self._driver.between_passes()
        probe.sent = True

    def _newest_probe(self) -> Probe | None:
        probe = self._probes.get()
        while probe is not None and not self._probes.empty():
            probe = self._probes.get()
        return probe


@contextmanager
def listening(driver: Driver, settings: Settings, *subscribers: Subscriber) -> Iterator[None]:
    """Listen inside the block, unless nobody wants to be told, or settings or driver have no wake."""
    if not settings.wake or not subscribers or Part.WAKE in driver.absent:
        yield
        return
    listener = Listener(driver, subscribers)
    listener.start()
    try:
        yield
    finally:
        listener.stop()


def _name_of(error: Exception) -> str:
    return type(error).__name__
