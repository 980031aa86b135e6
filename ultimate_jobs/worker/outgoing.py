"""What waits to be written: endings first, then notes, second looks, and claims to let go of."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta
from uuid import UUID

from ultimate_jobs.core.records import HeldClaim
from ultimate_jobs.drivers.base import Driver
from ultimate_jobs.worker.held import Held
from ultimate_jobs.worker.settle import Ended, Fate, Settler
from ultimate_jobs.worker.waiters import Waiters


class Outgoing:
    """Writes in groups; what could not be written is kept for the next time.

    Args:
        driver: where it is written.
        settler: the endings.
        worker: the id of the process.
        held: the runs of the process.

    """

    def __init__(
        self, driver: Driver, settler: Settler, worker: str, held: Collection[Held]
    ) -> None:
        self._driver = driver
        self._settler = settler
        self._worker = worker
        self._held = held
        self.waiters = Waiters(driver)
        self._noted: dict[HeldClaim, Held] = {}
        self._waits: list[tuple[UUID, timedelta]] = []
        self._disowned: list[HeldClaim] = []

    def __bool__(self) -> bool:
        return bool(len(self._settler) or self._noted or self._waits or self._disowned)

    def note(self, held: Held) -> None:
        """Keep in mind that a run has progress to write."""
        self._noted[held.key] = held

    def look_again(self, job: UUID, poll: timedelta) -> None:
        """Look once more, soon, for the event of a run that has just begun to wait."""
        self._waits.append((job, poll))

    def disown(self, claim: HeldClaim) -> None:
        """Let go of a claim nothing more can be done for: the signs of life hold it."""
        self._disowned.append(claim)

    def write(self, written: Callable[[Ended, Fate], None]) -> bool:
        """Write everything; answer whether a run that waits was found to be due.

        Raises:
            Exception: the database did not take it; the rest is kept.

        """
        answers = self._settler.write()
        for ended, fate in answers:
            written(ended, fate)
        self.waiters.tell(answers)
        self._write_progress()
        come = self._look_again()
        self._disown()
        return come

    def _write_progress(self) -> None:
        noted, self._noted = self._noted, {}
        notes = [
            (key, note)
            for key, held in noted.items()
            if held in self._held and held.flight.flying and (note := held.take_note()) is not None
        ]
        if notes:
            self._driver.queue.record_progress(self._worker, notes)

    def _look_again(self) -> bool:
        if not self._waits:
            return False
        come = self._driver.steps.look_again(self._waits)
        self._waits = []
        return bool(come)

    def _disown(self) -> None:
        if self._disowned:
            self._driver.queue.disown(self._worker, self._disowned)
            self._disowned = []
