"""Who brings the work: threads that stage jobs in transactions and know what became of each."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from django.db import Error as DatabaseError, connection, transaction  # noqa: TID251

from testproject.soak.jobs import JOBS, Task
from testproject.soak.models import Batch
from testproject.soak.plan import Planned
from ultimate_jobs import JobsError

PAUSE_SECONDS = 0.05

# What an outage looks like: to Django's own statements, and to an enqueue.
OUTAGE = (DatabaseError, JobsError)


class RolledBack(Exception):
    """The producer changed its mind after everything was written."""


class Producers:
    """Threads that carry a plan out, no more than `ahead` jobs before those that have ended.

    Attributes:
        committed: the kind of each job that was committed, by key.
        rolled_back: keys of the jobs that were not.
        resolved: commits whose answer was lost, and that had taken place.
        retried: transactions that were tried again.
        ended: how many jobs have ended; whoever looks says so.

    """

    def __init__(self, planned: Iterator[Planned], *, threads: int, ahead: int) -> None:
        self.committed: dict[str, str] = {}
        self.rolled_back: set[str] = set()
        self.resolved = 0
        self.retried = 0
        self.ended = 0
        self._ahead = ahead
        self._planned = planned
        self._enough = threading.Event()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"producer-{n}", daemon=True)
            for n in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def begin_no_more(self) -> None:
        """Let each thread finish its transaction."""
        self._enough.set()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        try:
            for planned in self._take():
                while len(self.committed) - self.ended > self._ahead:
                    if self._stopping.wait(PAUSE_SECONDS):
                        return
                self._carry_out(planned)
        finally:
            connection.close()

    def _take(self) -> Iterator[Planned]:
        while not (self._stopping.is_set() or self._enough.is_set()):
            with self._lock:
                planned = next(self._planned, None)
            if planned is None:
                return
            yield planned

    def _carry_out(self, planned: Planned) -> None:
        """Try until it is known to have committed, or rolled back as planned."""
        while not self._stopping.is_set():
            try:
                stage(planned)
            except RolledBack:
                return self._note_rolled_back(planned)
            except OUTAGE:
                connection.close()
                if not planned.rolls_back and self._was_committed(planned):
                    return self._note_committed(planned, resolved=True)
                with self._lock:
                    self.retried += 1
                self._stopping.wait(PAUSE_SECONDS)
            else:
                return self._note_committed(planned)
        return None

    def _was_committed(self, planned: Planned) -> bool:
        """Find out what became of a commit whose answer was lost, however long that takes."""
        while True:
            try:
                return Batch.objects.filter(key=planned.key).exists()
            except OUTAGE:
                connection.close()
                if self._stopping.wait(PAUSE_SECONDS):
                    return False

    def _note_committed(self, planned: Planned, *, resolved: bool = False) -> None:
        with self._lock:
            self.committed.update(planned.kinds())
            self.resolved += resolved

    def _note_rolled_back(self, planned: Planned) -> None:
        with self._lock:
            self.rolled_back.update(key for key, _ in planned.kinds())


def stage(planned: Planned) -> None:
    """Write a batch and its jobs in one transaction.

    Raises:
        RolledBack: as was planned, when everything had been written.

    """
    with transaction.atomic():
        Batch.objects.create(key=planned.key)
        for kind, keys in planned.jobs.items():
            JOBS[kind].enqueue_many([Task(key) for key in keys])
        if planned.rolls_back:
            raise RolledBack
