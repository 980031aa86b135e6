"""Which of the claimed runs may start: by the limits of this process, then by the fleet's caps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from ultimate_jobs.conf import Settings
from ultimate_jobs.core.failure import describe
from ultimate_jobs.core.jsonform import loads
from ultimate_jobs.core.limiter import NO_LIMITS, ConcurrencyLimiter, Ticket
from ultimate_jobs.core.records import HeldClaim, Slot, SlotAnswer, SlotRequest
from ultimate_jobs.core.settlement import HandedBack, Outcome, Refused
from ultimate_jobs.core.slots import Placing, place
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.drivers.base import Driver, Slots
from ultimate_jobs.errors import ConcurrencyUnenforceable, InputInvalid, KeyBusy
from ultimate_jobs.process.clock import monotonic
from ultimate_jobs.process.log import event
from ultimate_jobs.worker.execute import failed as failure
from ultimate_jobs.worker.held import Held

ROUNDS = 3
"""How often a slot is asked for when another claim took the one that was seen free."""

LOOK_EVERY = 1.0
"""Seconds between two looks for runs that stand by, while there are any."""


class Admission:
    """Takes places and slots for claimed runs, and lets those that stand by come forward again.

    Used by one thread, the dispatcher.

    Raises:
        ConcurrencyUnenforceable: a job declares a cap, and the driver has no slots.

    """

    def __init__(self, driver: Driver, registry: Registry, settings: Settings, worker: str) -> None:
        self._slots = driver.slots
        self._limiter = ConcurrencyLimiter(settings.limits)
        self.limited = settings.limits != NO_LIMITS
        """Whether this process has limits of its own."""
        self._lease = settings.visibility_timeout
        self._poll = settings.poll_interval
        self._worker = worker
        self._names = registry.names()
        self._caps = {job.name: job.concurrency for job in registry if job.concurrency is not None}
        if self._slots is None and self._caps:
            raise ConcurrencyUnenforceable(
                f"The driver '{driver.name}' has no lease store, and these jobs declare a cap: "
                f"{', '.join(self._caps)}."
            )
        self._look_seldom = settings.beat_every.total_seconds()
        self._next_look = 0.0
        self._after = ""

    def admits_all(self, names: Iterable[str]) -> bool:
        """Answer whether every run of these jobs may start without being asked for."""
        return not self.limited and self._caps.keys().isdisjoint(names)

    def settle_in(
        self, claimed: Sequence[Held], failed: Callable[[Exception], None]
    ) -> dict[HeldClaim, Outcome | None]:
        """Answer for each run ``None`` when it may start, or how it ended instead.

        Runs that stand by are handed back here and are not in the answer. When the slots cannot be
        asked for, ``failed`` is told why, and the runs that need one come again later.
        """
        answers: dict[HeldClaim, Outcome | None] = {}
        admitted: list[Held] = []
        for held in claimed:
            if self._is_within_limits(held):
                admitted.append(held)
            else:
                answers[held.key] = HandedBack(self._poll)
        answers |= self._with_slots(admitted, failed)
        for held in admitted:
            if held.ticket is not None and answers.get(held.key, self) is None:
                held.ticket.started()
        return answers

    def _is_within_limits(self, held: Held) -> bool:
        met = self._limiter.admit(held.job.queue, held.job.tenant_id, monotonic())
        if isinstance(met, Ticket):
            held.ticket = met
            return True
        reason = met.reason.value
        event(logging.DEBUG, "jobs.worker.shed", worker=self._worker, reason=reason, **held.facts())
        return False

    def _with_slots(
        self, claimed: Sequence[Held], failed: Callable[[Exception], None]
    ) -> dict[HeldClaim, Outcome | None]:
        answers: dict[HeldClaim, Outcome | None] = {}
        asking: dict[UUID, tuple[Held, SlotRequest]] = {}
        for held in claimed:
            try:
                request = self._request(held)
            except InputInvalid:
                answers[held.key] = None  # the attempt itself fails on it, and knows what follows
            except Exception as error:  # noqa: BLE001 - key functions are the application's
                answers[held.key] = failure(error)
            else:
                if request is None:
                    answers[held.key] = None
                else:
                    asking[held.job.id] = (held, request)
        if asking and self._slots is not None:
            try:
                answers |= self._placed(self._slots, asking)
            except Exception as error:  # noqa: BLE001 - the others start all the same
                failed(error)
                answers |= {held.key: HandedBack(self._poll) for held, _ in asking.values()}
        return answers

    def come_forward(self) -> bool:
        """Look, when it is time, for runs that stand by beside free slots; answer if any do."""
        now = monotonic()
        if self._slots is None or not self._caps or now < self._next_look:
            return False
        caps = {name: self._caps.get(name, _NO_CAP) for name in self._names}
        admitted = self._slots.admit(caps, self._after)
        self._after = admitted.last_key or ""
        often = admitted.standing_by or admitted.last_key is not None
        self._next_look = now + (LOOK_EVERY if often else self._look_seldom)
        return admitted.count > 0

    def _request(self, held: Held) -> SlotRequest | None:
        spec, job = held.spec, held.job
        if spec.concurrency is None:
            return None
        keyed = spec.concurrency_key is not None
        key = spec.lease_key(spec.schema.parse(loads(job.input)) if keyed else None)
        if key is None:
            return None
        return SlotRequest(
            id=job.id, run_id=job.run_id, claim=job.claim, key=key, cap=spec.concurrency
        )

    def _placed(
        self, slots: Slots, asking: dict[UUID, tuple[Held, SlotRequest]]
    ) -> dict[HeldClaim, Outcome | None]:
        met = self._acquire(slots, [request for _, request in asking.values()])
        placed: dict[HeldClaim, Outcome | None] = {}
        standing_by: list[tuple[HeldClaim, str]] = []
        for held, request in asking.values():
            answer = met[request.id]
            match place(answer, cap=request.cap, when_busy=held.spec.when_busy):
                case Placing.START:
                    held.slot = Slot(request.key, answer.number or 0)
                    placed[held.key] = None
                case Placing.REFUSE:
                    placed[held.key] = Refused(describe(_busy(held)))
                case Placing.LATER:
                    placed[held.key] = HandedBack(self._poll)
                case Placing.STAND_BY:
                    standing_by.append((held.key, request.key))
        if standing_by:
            slots.stand_by(self._worker, standing_by)
            self._next_look = min(self._next_look, monotonic() + LOOK_EVERY)
        return placed

    def _acquire(self, slots: Slots, requests: Sequence[SlotRequest]) -> dict[UUID, SlotAnswer]:
        met: dict[UUID, SlotAnswer] = {}
        for _ in range(ROUNDS):
            met |= slots.acquire(self._worker, self._lease, requests)
            requests = [request for request in requests if met[request.id].raced]
            if not requests:
                break
        return met


_NO_CAP = 1_000_000


def _busy(held: Held) -> KeyBusy:
    return KeyBusy(f"Other runs of '{held.spec.name}' hold every slot of this key.")
