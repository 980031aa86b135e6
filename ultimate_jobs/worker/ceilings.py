"""Ceilings of bodies and steps: told first, then given up."""

from __future__ import annotations

from collections.abc import Callable

from ultimate_jobs.core.settlement import Outcome
from ultimate_jobs.errors import JobTimeout
from ultimate_jobs.worker.deadlines import Deadlines
from ultimate_jobs.worker.execute import failed
from ultimate_jobs.worker.held import Held, StepCeiling
from ultimate_jobs.worker.threads import BodyThreads

ABORT_GRACE = 0.25
"""Seconds an aborted body gets to stop before its attempt is failed and its thread given up."""


class Ceilings:
    """Watches how long bodies and steps take. Used by the dispatcher.

    Args:
        deadlines: what fires when a ceiling passes.
        threads: where a body that is given up loses its thread; another takes its place.
        end: ends an attempt.

    """

    def __init__(
        self, deadlines: Deadlines, threads: BodyThreads, *, end: Callable[[Held, Outcome], None]
    ) -> None:
        self._deadlines = deadlines
        self._threads = threads
        self._end = end

    def watch(self, held: Held) -> None:
        """Watch a body that has a ceiling."""
        if held.spec.timeout is not None and held.flight.flying:
            seconds = held.spec.timeout.total_seconds() - held.seconds
            self._deadlines.set(held, seconds, lambda: self._expire(held))

    def watch_step(self, ceiling: StepCeiling) -> None:
        """Watch a step."""
        seconds = ceiling.limit.total_seconds()
        self._deadlines.set(ceiling, seconds, lambda: self._expire_step(ceiling))

    def _expire(self, held: Held) -> None:
        """Tell a body that its time is over, and soon stop waiting for it."""
        if held.token.abort(JobTimeout(f"'{held.spec.name}' ran past its timeout.")):
            self._deadlines.set(held, ABORT_GRACE, lambda: self._abandon(held))

    def _expire_step(self, ceiling: StepCeiling) -> None:
        """Tell a step that its time is over; one that does not stop takes its attempt with it."""
        if not ceiling.flight.flying:
            return
        reason = JobTimeout(f"The step '{ceiling.name}' ran past its timeout.")
        ceiling.token.abort(reason)
        self._deadlines.set(ceiling, ABORT_GRACE, lambda: self._abandon_step(ceiling, reason))

    def _abandon_step(self, ceiling: StepCeiling, reason: JobTimeout) -> None:
        if ceiling.flight.give_up() and ceiling.held.token.abort(reason):
            self._abandon(ceiling.held)

    def _abandon(self, held: Held) -> None:
        """Fail an attempt whose body does not stop."""
        reason = held.token.reason
        if reason is not None and held.flight.give_up():
            self._threads.lost(held)
            self._end(held, failed(reason))
