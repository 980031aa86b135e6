"""A site of virtual processes: a relay, workers that die and are replaced, and a clock.

They live on the calling thread, on its connection, in one transaction that is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Greatest

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.states import WAITING, JobState
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.drivers.base import Joined
from ultimate_jobs.drivers.handler import joined_driver, using_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.models import Job, Worker
from ultimate_jobs.testing.clock import Clock
from ultimate_jobs.testing.door import Killed, Side, connections_in_use, door
from ultimate_jobs.testing.inline import InlineWorker
from ultimate_jobs.testing.rows import live_jobs, next_due, staged_rows
from ultimate_jobs.testing.watch import Watch

MOST_MOVES = 200
"""Moves of the clock that runs may take before they count as endless."""


@contextmanager
def undone() -> Iterator[None]:
    """Undo at the end of the block whatever happened in it, on every connection in use."""
    used = {c.alias for c in connections_in_use() if c.connection is not None}
    with ExitStack() as stack:
        for alias in sorted(used | {get_settings().database}):
            stack.enter_context(_undone(alias))
        yield


@contextmanager
def _undone(alias: str) -> Iterator[None]:
    with transaction.atomic(using=alias):
        try:
            yield
        finally:
            transaction.set_rollback(True, using=alias)


@contextmanager
def a_site() -> Iterator[Site]:
    """Give a site inside the block; what happens there is undone."""
    clock = Clock()
    driver = joined_driver(clock.now)
    with undone(), clock.in_place(), using_driver(driver), driver.session():
        yield Site(driver, clock)


class Site:
    """Everything that is not a worker: the relay, the rows as they stand, and the time."""

    def __init__(self, driver: Joined, clock: Clock) -> None:
        self.clock = clock
        self._driver = driver
        self._relay = Relay(driver, get_settings())

    @property
    def statements(self) -> Mapping[str, str]:
        """The texts of the package's statements, by their names."""
        return self._driver.operator.statements()

    def worker(self) -> InlineWorker:
        """Start a worker process."""
        return InlineWorker(self._driver, self.clock, Watch(), f"inline-{new_id()}")

    def relay(self) -> int:
        """Publish what is staged; answer how many rows were."""
        return self._relay.drain()

    def in_transaction(self) -> bool:
        """Answer whether the calling thread has a transaction open."""
        return self._driver.steps.transaction_depth() > 0

    def lapse(self) -> None:
        """Let the lease of every worker run out that gives no sign of life from now on."""
        self.clock.advance(get_settings().visibility_timeout + timedelta(seconds=1))

    def is_over(self) -> bool:
        """Answer whether every job has ended and nothing is staged."""
        return not declared_jobs().exists() and not self.is_staged()

    def is_staged(self) -> bool:
        """Answer whether something waits for the relay."""
        return staged_rows().exists()

    def queues_due(self) -> list[str]:
        """Answer the queues in which a worker would find something to claim."""
        now = self.clock.now()
        waiting = Q(state__in=WAITING, run_at__lte=now, blocked=False)
        lapsed = Q(state=JobState.RUNNING, held_until__lte=now)
        due = _held().filter(waiting | lapsed)
        return list(due.order_by("queue").values_list("queue", flat=True).distinct())

    def wait(self) -> None:
        """Move the clock to when the next job can be claimed, by its time or the end of a lease.

        A wait for an event counts by its timeout: to look again before that finds nothing.
        """
        now = self.clock.now()
        running = _held().filter(state=JobState.RUNNING, held_until__gt=now)
        lapse = running.aggregate(at=Min("held_until"))["at"]
        instants = [at for at in (next_due(now), lapse) if at is not None]
        if instants:
            self.clock.move_to(min(instants))


@dataclass(slots=True, kw_only=True)
class Succession:
    """Workers that finish every run one after the other; each lives until it is killed.

    Args:
        site: where they live.
        dies: whether the worker dies now, at a statement of its own and on this side of it.
        meanwhile: what happens outside; called whenever nothing is due.

    """

    site: Site
    dies: Callable[[str, Side], bool]
    meanwhile: Callable[[], object]
    deaths: int = 0
    _worker: InlineWorker | None = None
    _at_work: bool = False
    _is_dead: bool = False

    def to_the_end(self) -> bool:
        """Work, and move the clock, until every job has ended; answer whether that came about."""
        with door(self.site.statements, self._passes):
            for _ in range(MOST_MOVES):
                while self._moves():
                    pass
                self.meanwhile()
                if self.site.is_over():
                    return True
                if not self.site.relay() and not self.site.queues_due():
                    self.site.wait()
        return False

    def stop(self) -> None:
        """Tell the worker at work to stop; another takes its place."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _moves(self) -> bool:
        """Publish and run one thing; answer whether there was something to run."""
        self.site.relay()
        queues = self.site.queues_due()
        return bool(queues) and self._live(queues)

    def _live(self, queues: list[str]) -> bool:
        worker = self._worker = self._worker or self.site.worker()
        self._at_work = True
        try:
            taken = worker.claim(queues, 1)
            for held in taken.to_run:
                worker.run(held)
            worker.settle()
            return bool(taken.jobs)
        except Killed:
            self._worker, self._is_dead = None, False
            self.deaths += 1
            self.site.lapse()
            return True
        finally:
            self._at_work = False

    def _passes(self, statement: str, side: Side) -> None:
        if not self._at_work:
            return
        if not self._is_dead:
            self._is_dead = self.dies(statement, side)
        if self._is_dead:
            raise Killed


def declared_jobs() -> QuerySet[Job]:
    """Answer the jobs that have not ended and that a worker here would run."""
    return live_jobs().filter(name__in=registry.names())


def _held() -> QuerySet[Any]:
    """Answer these jobs with the end of their lease, or of their worker's last sign of life."""
    lives = Worker.objects.using(get_settings().database).filter(id=OuterRef("claimed_by"))
    life = Subquery(lives.values("expires_at"))
    return declared_jobs().annotate(held_until=Greatest("visible_at", life))
