"""Rounds of a relay and a worker, until nothing is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from uuid import UUID

from ultimate_jobs.conf import Settings, get_settings
from ultimate_jobs.core.records import BuriedJob, ClaimedJob
from ultimate_jobs.core.spec import JobSpec
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.errors import JobsNeverIdle
from ultimate_jobs.testing.clock import Clock
from ultimate_jobs.testing.inline import InlineWorker
from ultimate_jobs.testing.rows import queues_in_use
from ultimate_jobs.testing.watch import Watch

MOST_ROUNDS = 100
"""Rounds of one drain; more means that something comes due again and again."""


class Rounds:
    """Relays and runs what is due. One worker goes through the whole test.

    Args:
        driver: where the rows live.
        clock: the test's time.
        watch: told what runs do.

    """

    def __init__(self, driver: Driver, clock: Clock, watch: Watch) -> None:
        self._driver = driver
        self._clock = clock
        self._watch = watch
        self._made: tuple[list[JobSpec], Settings, InlineWorker] | None = None

    def drain(self, queues: Iterable[str] | None, answered: Callable[[], int]) -> list[UUID]:
        """Work until nothing is due; answer the jobs that ran, in the order of their starts.

        Args:
            queues: the queues to serve; by default every one that has a job.
            answered: asked for more work when nothing is due; answers how much there is.

        Raises:
            JobsNeverIdle: work still comes due after ``MOST_ROUNDS`` rounds.

        """
        worker = self._worker()
        named = None if queues is None else set(queues)
        relay = Relay(self._driver, get_settings())
        ran: dict[UUID, None] = {}
        met: Sequence[ClaimedJob | BuriedJob] = ()
        for _ in range(MOST_ROUNDS):
            relayed = relay.drain()
            met = self._round(worker, queues_in_use() if named is None else named)
            ran |= dict.fromkeys(job.id for job in met)
            if not relayed and not met and not answered():
                return list(ran)
        due = Counter(job.name for job in met).most_common(5)
        names = ", ".join(f"'{name}' ({count})" for name, count in due)
        raise JobsNeverIdle(
            f"After {MOST_ROUNDS} rounds work still comes due: {names or 'answered events'}."
        )

    def _round(
        self, worker: InlineWorker, queues: Collection[str]
    ) -> Sequence[ClaimedJob | BuriedJob]:
        if not queues:
            return ()
        taken = worker.claim(sorted(queues))
        worker.settle()
        for held in taken.to_run:
            worker.run(held)
            worker.settle()
        return taken.jobs

    def _worker(self) -> InlineWorker:
        """Answer the worker; another one when the declared jobs or the settings have changed."""
        specs, settings = [job.spec for job in registry], get_settings()
        if self._made is None or self._made[:2] != (specs, settings):
            worker = InlineWorker(self._driver, self._clock, self._watch)
            self._made = specs, settings, worker
        return self._made[2]
