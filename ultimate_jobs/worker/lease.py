"""Signs of life: one statement per interval for every claim and slot of the process."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence

from ultimate_jobs.conf import Settings
from ultimate_jobs.core.records import HeldClaim, Lost, Presence
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.process.log import event
from ultimate_jobs.process.pulse import Pulse
from ultimate_jobs.worker.stats import WorkerStats


def presence_of(stats: WorkerStats, jobs: Sequence[str]) -> Presence:
    """Say what this process is: a worker that knows these jobs."""
    return Presence(
        worker=stats.worker_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=stats.queues,
        jobs=jobs,
        concurrency=stats.max_in_flight,
        state=stats.state.value,
    )


class Heartbeat:
    """A thread that says that the process lives, at once and then at every interval.

    ``renewed_at`` is the monotonic time at which the last successful renewal began: the dispatcher
    judges by it whether claims can still be trusted, which also catches a renewal that never comes
    back.
    """

    def __init__(
        self,
        driver: Driver,
        settings: Settings,
        *,
        presence: Callable[[], Presence],
        held: Callable[[], Sequence[HeldClaim]],
        lost: Callable[[Sequence[Lost]], None],
        pulse: Pulse,
    ) -> None:
        self.renewed_at = float("-inf")
        self._driver = driver
        self._lease = settings.visibility_timeout
        self._every = settings.beat_every.total_seconds()
        self._presence = presence
        self._held = held
        self._lost = lost
        self._pulse = pulse
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="ultimate_jobs-heartbeat", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; a renewal in flight is waited for, but not for ever."""
        self._ended.set()
        self._thread.join(self._every)

    def farewell(self) -> None:
        """Remove the sign of life, if one was ever given."""
        if self.renewed_at > float("-inf"):
            worker = self._presence().worker
            try:
                self._driver.queue.farewell(worker)
            except Exception as error:  # noqa: BLE001 - the row expires by itself
                event(logging.WARNING, "jobs.worker.farewell-failed", error=type(error).__name__)

    def _run(self) -> None:
        try:
            self._beat()
            while not self._ended.wait(self._every):
                self._beat()
        finally:
            self._driver.close()

    def _beat(self) -> None:
        held = self._held()
        began = time.monotonic()
        presence = self._presence()
        try:
            lost = self._driver.queue.heartbeat(presence, held, self._lease)
            self._driver.between_passes()
        except Exception as error:  # noqa: BLE001 - one failed renewal is survivable; silence is not
            self._pulse.unanswered()
            event(
                logging.WARNING,
                "jobs.heartbeat.failed",
                worker=presence.worker,
                error=type(error).__name__,
            )
            return
        self.renewed_at = began
        self._pulse.answered()
        if lost:
            self._lost(lost)
