"""The relay: one pass after the other, from the outbox to the queue."""

from __future__ import annotations

import logging

from ultimate_jobs.conf import Settings
from ultimate_jobs.core.records import RelayPass, Topic
from ultimate_jobs.drivers.base import Driver, PublishRefused, Unreachable
from ultimate_jobs.process.bell import Bell
from ultimate_jobs.process.idle import Backoff, IdleWait
from ultimate_jobs.process.log import event
from ultimate_jobs.process.pulse import Pulse
from ultimate_jobs.process.wake import Subscriber


class Relay:
    """Moves committed rows until it is stopped. Any number of relays may run at once."""

    def __init__(self, driver: Driver, settings: Settings, pulse: Pulse | None = None) -> None:
        self._driver = driver
        self._batch = settings.relay_batch_size
        self._repeats = settings.prepared_statements
        self._idle = IdleWait(
            settings.relay_interval, settings.idle_poll_max, settings.idle_poll_max_wake
        )
        self._live = False
        self._backoff = Backoff()
        self._bell = Bell()
        self._pulse = pulse or Pulse("relay")
        self._stopping = False

    def subscribers(self) -> list[Subscriber]:
        """Say what word of new work the relay wants."""
        return [Subscriber(Topic.OUTBOX, self.wake, self.trust_wake)]

    def run(self) -> None:
        """Work until ``stop``; the pass in flight is finished first."""
        try:
            if self._repeats:
                self._driver.repeat_statements()
            while not self._stopping:
                wait = self._turn()
                self._pulse.turn(wait)
                if self._bell.wait(wait):
                    self._idle.woken()
        finally:
            self._driver.close()

    def stop(self) -> None:
        """End ``run`` after the pass in flight; safe in a signal handler."""
        self._stopping = True
        self._bell.ring()

    def wake(self, queue: str) -> None:
        """Look at once for what was staged. Any thread."""
        self._bell.ring()

    def trust_wake(self, live: bool) -> None:  # noqa: FBT001 - what a listener calls
        """Say whether ``wake`` is proven to be called for what was staged. Any thread."""
        self._live = live
        self._bell.ring()

    def drain(self) -> int:
        """Pass until nothing waits that can be published; answer how many rows were published."""
        published = 0
        while (done := self.tick()).published or done.deduped:
            published += done.published
        return published

    def tick(self) -> RelayPass:
        """Run one pass: one statement, or, when a row is refused, the search for it.

        Raises:
            Unreachable: the database does not answer; nothing was moved.

        """
        try:
            return self._driver.outbox.relay(self._batch)
        except PublishRefused:
            return self._isolate()

    def _isolate(self) -> RelayPass:
        moved, poison = self._driver.outbox.isolate(self._batch)
        for row in poison:
            event(
                logging.WARNING,
                "jobs.outbox.publish-failed",
                id=row.id,
                name=row.name,
                error=row.error,
            )
        return RelayPass(moved.seen, moved.published, moved.deduped, len(poison))

    def _turn(self) -> float:
        """Run one pass whatever happens; answer the seconds until the next."""
        try:
            self._driver.between_passes()
            done = self.tick()
        except Unreachable as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - a loop that ends silently loses every later row
            return self._failed(error)
        self._backoff.worked()
        self._pulse.answered()
        self._idle.trust(live=self._live)
        if done.seen >= self._batch:
            return 0
        return self._idle.after(found=done.seen > 0)

    def _failed(self, error: Exception) -> float:
        wait = self._backoff.failed()
        self._pulse.unanswered()
        event(
            logging.ERROR,
            "jobs.outbox.tick-failed",
            error=type(error).__name__,
            next_try_seconds=wait,
        )
        return wait
