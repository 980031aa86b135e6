"""Whether claims can still be trusted: by the clock of the process, and by what signs of life met."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from ultimate_jobs.core.records import HeldClaim, Lost
from ultimate_jobs.errors import JobsError, LeaseLost, SlotLost
from ultimate_jobs.process.log import event
from ultimate_jobs.worker.bodies import Bodies
from ultimate_jobs.worker.held import Held
from ultimate_jobs.worker.stats import WorkerStats

_NEVER = float("inf")


class Trust:
    """Tells runs whose claim or slot is gone to stop. Used by the dispatcher.

    Args:
        bodies: the runs that are held.
        stats: where losses are counted.
        lease: seconds for which a claim is trusted after it was made or renewed.
        renewed_at: when the last successful renewal of all claims began.
        disown: lets go of a claim that nothing more can be done for.

    """

    def __init__(
        self,
        bodies: Bodies,
        stats: WorkerStats,
        *,
        lease: float,
        renewed_at: Callable[[], float],
        disown: Callable[[HeldClaim], None],
    ) -> None:
        self._bodies = bodies
        self._stats = stats
        self._lease = lease
        self._renewed_at = renewed_at
        self._disown = disown

    def check(self) -> float:
        """Abort every claim that has not been renewed for a whole lease; answer the next instant."""
        if not self._bodies.held:
            return _NEVER
        now, renewed = time.monotonic(), self._renewed_at()
        if renewed + self._lease > now:  # it vouches for all of them
            return renewed + self._lease
        until = {held: held.claimed_at + self._lease for held in self._bodies.held}
        self._stop([held for held, instant in until.items() if instant <= now])
        return min((instant for instant in until.values() if instant > now), default=_NEVER)

    def lost(self, lost: Sequence[Lost]) -> None:
        """Stop the runs of which a sign of life found that their claim, or only a slot, is gone."""
        found = self._bodies.find(one.claim for one in lost)
        for slot_only in (False, True):
            gone = [found[x.claim] for x in lost if x.slot_only is slot_only and x.claim in found]
            self._stop(gone, slot_only=slot_only)

    def _stop(self, runs: Sequence[Held], *, slot_only: bool = False) -> None:
        for held in runs:
            name, reason = _loss(held, slot_only=slot_only)
            if held.token.abort(reason):
                event(logging.ERROR, name, worker=held.worker, **held.facts())
                self._stats.lost(slot_only=slot_only)
                if not slot_only:
                    self._disown(held.key)


def _loss(held: Held, *, slot_only: bool) -> tuple[str, JobsError]:
    if slot_only:
        return "jobs.worker.slot-lost", SlotLost(f"'{held.spec.name}' lost its slot.")
    return "jobs.lease.lost", LeaseLost(f"'{held.spec.name}' lost its claim.")
