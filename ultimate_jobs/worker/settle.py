"""Endings on their way to the rows: decided one by one, written in groups."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from enum import Enum, auto

import msgspec

from ultimate_jobs.core.records import Settling
from ultimate_jobs.core.settlement import (
    Completed,
    Failed,
    Outcome,
    Verdict,
    completed,
    decide,
)
from ultimate_jobs.drivers.base import Queue, Unreachable
from ultimate_jobs.process.log import event
from ultimate_jobs.worker.held import Held


class Ended(msgspec.Struct, frozen=True, gc=False):
    """An attempt that ended, with what becomes of its row."""

    held: Held
    outcome: Outcome
    verdict: Verdict
    settling: Settling


class Fate(Enum):
    """What came of an ending."""

    WRITTEN = auto()
    UNOWNED = auto()
    REFUSED = auto()


class Settler:
    """Collects endings and writes them, each behind the fence of its claim."""

    def __init__(self, queue: Queue, worker: str, dice: random.Random) -> None:
        self._queue = queue
        self._worker = worker
        self._dice = dice
        self._open: list[Ended] = []

    def __len__(self) -> int:
        return len(self._open)

    def add(self, held: Held, outcome: Outcome) -> Ended:
        """Decide an ending and keep it for the next write."""
        job = held.job
        verdict = completed(outcome) if type(outcome) is Completed else self._decide(held, outcome)
        settling = Settling(
            id=job.id,
            claim=job.claim,
            settlement=verdict.settlement,
            seconds=held.seconds,
            progress=held.take_note(),
            slot=held.slot,
        )
        ended = Ended(held, outcome, verdict, settling)
        _log_failure(ended)
        self._open.append(ended)
        return ended

    def _decide(self, held: Held, outcome: Outcome) -> Verdict:
        return decide(
            outcome,
            attempt=held.job.attempt,
            attempts=held.spec.attempts_of(held.job.max_attempts),
            retry=held.spec.retry,
            roll=self._dice.random(),
            compensates=held.spec.compensates,
        )

    def write(self) -> list[tuple[Ended, Fate]]:
        """Write what was collected, in one statement, and answer what came of each.

        Raises:
            Unreachable: the database does not answer; everything is kept for the next write.

        """
        if not self._open:
            return []
        try:
            answers = self._together(self._open)
        except Unreachable:
            raise
        except Exception:  # noqa: BLE001 - one row that cannot be written must not hold up the others
            answers = [self._alone(ended) for ended in self._open]
        self._open = []
        for ended, fate in answers:
            if fate is Fate.UNOWNED:
                event(logging.WARNING, "jobs.settle.unowned", **ended.held.facts())
        return answers

    def _together(self, endings: Sequence[Ended]) -> list[tuple[Ended, Fate]]:
        stood = self._queue.settle(self._worker, [ended.settling for ended in endings])
        if len(stood) == len(endings):
            return [(ended, Fate.WRITTEN) for ended in endings]
        return [
            (e, Fate.WRITTEN if (e.settling.id, e.settling.claim) in stood else Fate.UNOWNED)
            for e in endings
        ]

    def _alone(self, ended: Ended) -> tuple[Ended, Fate]:
        try:
            ((_, fate),) = self._together([ended])
        except Unreachable:
            raise
        except Exception as error:  # noqa: BLE001 - its claim lapses, and the job is delivered again
            event(
                logging.ERROR,
                "jobs.worker.settle-failed",
                error=type(error).__name__,
                **ended.held.facts(),
            )
            return ended, Fate.REFUSED
        return ended, fate


def _log_failure(ended: Ended) -> None:
    if not isinstance(ended.outcome, Failed):
        return
    settlement = ended.verdict.settlement
    if not settlement.counted:
        return
    event(
        logging.WARNING if ended.verdict.stop is None else logging.ERROR,
        "jobs.attempt.failed",
        **ended.held.facts(),
        code=ended.outcome.code,
        error=ended.outcome.kind,
        at=ended.outcome.place or None,
        stop=ended.verdict.stop,
        retry_in=settlement.wait if ended.verdict.stop is None else None,
    )
