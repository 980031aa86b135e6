"""Endings on their way to the rows: decided one by one, written in groups."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ultimate_jobs.core.records import Settling
from ultimate_jobs.core.settlement import Failed, Outcome, Verdict, decide
from ultimate_jobs.drivers.base import Queue, Unreachable
from ultimate_jobs.process.log import event
from ultimate_jobs.worker.held import Held


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that ended, with what becomes of its row."""

    held: Held
    outcome: Outcome
    verdict: Verdict
    settling: Settling


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
        verdict = decide(
            outcome,
            attempt=job.attempt,
            attempts=held.spec.attempts_of(job.max_attempts),
            retry=held.spec.retry,
            roll=self._dice.random(),
            compensates=held.spec.compensates,
        )
        settling = Settling(
            id=job.id,
            claim=job.claim,
            settlement=verdict.settlement,
            seconds=held.seconds,
            progress=held.take_note(),
        )
        ended = Ended(held, outcome, verdict, settling)
        _log_failure(ended)
        self._open.append(ended)
        return ended

    def write(self) -> list[tuple[Ended, bool]]:
        """Write what was collected, in one statement; answer each with whether its claim stood.

        Raises:
            Unreachable: the database does not answer; everything is kept for the next write.

        """
        if not self._open:
            return []
        try:
            stood = self._queue.settle(self._worker, [ended.settling for ended in self._open])
            answers = [(e, (e.settling.id, e.settling.claim) in stood) for e in self._open]
        except Unreachable:
            raise
        except Exception:  # noqa: BLE001 - one row that cannot be written must not hold up the others
            answers = self._one_by_one(self._open)
        self._open = []
        for ended, was_ours in answers:
            if not was_ours:
                event(logging.WARNING, "jobs.settle.unowned", **ended.held.facts())
        return answers

    def _one_by_one(self, endings: Sequence[Ended]) -> list[tuple[Ended, bool]]:
        answers: list[tuple[Ended, bool]] = []
        for ended in endings:
            try:
                answers.append((ended, bool(self._queue.settle(self._worker, [ended.settling]))))
            except Unreachable:
                raise
            except Exception as error:  # noqa: BLE001 - the lease lapses, and the job is delivered again
                event(
                    logging.ERROR,
                    "jobs.worker.settle-failed",
                    error=type(error).__name__,
                    **ended.held.facts(),
                )
                answers.append((ended, False))
        return answers


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
