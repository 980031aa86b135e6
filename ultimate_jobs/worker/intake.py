"""Taking work in: what to claim now, and which of the claimed runs may start."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from ultimate_jobs.core.records import BuriedJob, ClaimedJob, HeldClaim
from ultimate_jobs.core.settlement import Outcome
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.process.log import event
from ultimate_jobs.worker.admission import Admission
from ultimate_jobs.worker.bodies import Bodies
from ultimate_jobs.worker.claimer import Claimer
from ultimate_jobs.worker.held import Held, StepCeiling
from ultimate_jobs.worker.hooks import Hook, hook_after_burial
from ultimate_jobs.worker.rooms import Rooms
from ultimate_jobs.worker.stats import WorkerStats


class Intake:
    """Claims, and hands over what may start. Used by the dispatcher.

    Args:
        worker: the id of the process.
        registry: the jobs it knows.
        claimer: claims.
        admission: knows who may start.
        bodies: where runs start.
        stats: where burials are counted.
        announce: told, on a body thread, of progress to write.
        began_step: told, on a body thread, of a step with a ceiling.
        end: ends a run that does not start.
        disown: lets go of a claim.
        call: calls a hook.
        failed: told of an error that keeps runs waiting.

    """

    def __init__(  # noqa: PLR0913 - what a claimed run may lead to
        self,
        worker: str,
        registry: Registry,
        claimer: Claimer,
        admission: Admission,
        bodies: Bodies,
        stats: WorkerStats,
        *,
        announce: Callable[[Held], None],
        began_step: Callable[[StepCeiling], None],
        end: Callable[[Held, Outcome], None],
        disown: Callable[[HeldClaim], None],
        call: Callable[[Hook], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._worker = worker
        self._registry = registry
        self._claimer = claimer
        self._admission = admission
        self._bodies = bodies
        self._stats = stats
        self._announce = announce
        self._began_step = began_step
        self._end = end
        self._disown = disown
        self._call = call
        self._failed = failed

    def take(self, rooms: Rooms) -> tuple[bool, bool]:
        """Claim once; answer whether anything was found, and whether there may be more.

        Raises:
            Exception: the database did not answer.

        """
        asked_at = time.monotonic()
        came_forward = self._admission.come_forward()
        claims = self._claimer.take(rooms)
        got = len(claims.jobs)
        if rooms.ahead or got >= rooms.free:
            self._bodies.prefetch.claimed(rooms.free + rooms.ahead, got)
        self._start(claims.jobs, rooms.free, asked_at)
        for buried in claims.buried:
            self._bury(buried)
        return bool(got or claims.buried or came_forward), got >= rooms.free + rooms.ahead

    def _start(self, jobs: Sequence[ClaimedJob], room: int, claimed_at: float) -> None:
        claimed = [held for job in jobs if (held := self._hold(job, claimed_at)) is not None]
        self._bodies.held.update(claimed)
        self._bodies.begin(self._let_in(claimed), room)

    def _hold(self, job: ClaimedJob, claimed_at: float) -> Held | None:
        known = self._registry.get(job.name)
        if known is None:  # forgotten between the request and the answer
            self._disown(HeldClaim(job.id, job.claim))
            return None
        return Held(
            job,
            known.spec,
            self._worker,
            announce=self._announce,
            began_step=self._began_step,
            claimed_at=claimed_at,
            may_wait=self._claimer.may_wait(job),
        )

    def _let_in(self, claimed: list[Held]) -> list[Held]:
        """Answer the runs that may start; those that stand by for a slot are no longer held."""
        if self._admission.admits_all(held.job.name for held in claimed):
            return claimed
        answers = self._admission.settle_in(claimed, failed=self._failed)
        admitted: list[Held] = []
        for held in claimed:
            if held.key not in answers:
                held.leave()
                self._bodies.held.discard(held)
                continue
            outcome = answers[held.key]
            if outcome is None:
                admitted.append(held)
            else:
                self._end(held, outcome)
        return admitted

    def _bury(self, buried: BuriedJob) -> None:
        self._stats.buried(buried.state)
        event(
            logging.ERROR,
            "jobs.claim.exhausted",
            id=buried.id,
            name=buried.name,
            queue=buried.queue,
            attempt=buried.attempt,
            state=buried.state,
        )
        known = self._registry.get(buried.name)
        hook = hook_after_burial(known.spec, buried) if known is not None else None
        if hook is not None:
            self._call(hook)
