"""What a body receives, and what its ending hook receives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from ultimate_jobs.core.jsonform import JSONValue, storable_text
from ultimate_jobs.core.settlement import Ending
from ultimate_jobs.errors import InvariantError
from ultimate_jobs.process.cancel import CancelToken

I = TypeVar("I")

MAX_NOTE_CHARS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Generic[I]):
    """One attempt at a job, as its body sees it.

    Attributes:
        input: the input, parsed from its stored form.
        attempt: the number of this attempt, from 1. Never branch on it for correctness: an
            attempt that was handed back shows its number again.
        job_id: the job's id.
        run_id: names the run, the same on every attempt.
        final_attempt: whether no attempt is left after this one. A terminal error can end the job
            earlier.
        signal: aborted when the run should stop; pass it on to whatever waits.
        tenant: the tenant that the input belongs to, if the job has one.

    """

    input: I
    attempt: int
    job_id: UUID
    run_id: UUID
    final_attempt: bool
    signal: CancelToken
    tenant: str | None
    report: Callable[[JSONValue], None]

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the run has come, for whoever watches.

        Written at most once a second and once more when the attempt ends; never after the claim
        was lost.

        Raises:
            InvariantError: a number is negative or not finite.

        """
        for number in (done, total):
            if number is not None and not (math.isfinite(number) and number >= 0):
                raise InvariantError("progress takes finite numbers from zero.")
        self.report(
            {"done": done, "total": total, "note": storable_text(str(note), MAX_NOTE_CHARS)}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Generic[I]):
    """How a job ended, as its ``on_settled`` hook is told, after the ending was written.

    Attributes:
        outcome: ``completed``, ``dead-lettered``, ``dropped`` or ``refused``.
        job_id: the job's id.
        run_id: the run's id.
        attempt: the number of the last attempt.
        input: the input; ``None`` when the stored one no longer parses.
        result: what the body returned, in its stored form, when it completed.
        error: the row's last error, when it did not.
        code: the error's code, when it has one.
        signal: aborted when the hook has used up its time.

    """

    outcome: Ending
    job_id: UUID
    run_id: UUID
    attempt: int
    input: I | None
    result: JSONValue
    error: str | None
    code: str | None
    signal: CancelToken
