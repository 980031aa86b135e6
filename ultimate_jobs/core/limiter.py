"""What one worker process runs at once, and starts in a while, for each tenant and queue.

The dispatcher asks before it starts a run::

    match limiter.admit(job.queue, job.tenant_id, time.monotonic()):
        case Refusal(reason):
            ...  # hand the claim back
        case ticket:
            ticket.started()  # the body is entered
            ticket.release()  # it has ended; ``abandon()`` if it never began

A limiter belongs to one thread. It knows its own process only: the caps of a fleet are elsewhere.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from ultimate_jobs.core.bucket import Bucket, Level, bucket_of, refilled, take
from ultimate_jobs.core.durations import Duration, duration
from ultimate_jobs.errors import InvariantError

MAX_TENANTS = 20_000
"""Tenants that a limiter remembers."""

FORGET_REFUSALS_AFTER = 60.0
"""Seconds after its last refusal in which a tenant counts as throttled."""

MAX_CAP = 1_000_000

_EVICTED_AT_ONCE = 20  # a twentieth of what is remembered


class Reason(StrEnum):
    """Which cap a run was refused by."""

    OVERALL = "overall"
    PER_QUEUE = "per-queue"
    PER_TENANT = "per-tenant"
    RATE_PER_TENANT = "rate-per-tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The caps of a process; ``None`` is no cap, zero is a hard stop.

    Args:
        per_tenant: runs of one tenant at once.
        per_queue: runs of one queue at once.
        overall: runs at once.
        rate_per_tenant: starts of one tenant in a window: ``(100, "1m")``.

    Raises:
        InvariantError: a cap is no whole number from zero to a million, or a window no duration.

    """

    per_tenant: int | None = None
    per_queue: int | None = None
    overall: int | None = None
    rate_per_tenant: tuple[int, Duration] | None = None

    def __post_init__(self) -> None:
        mistakes = mistakes_in(
            per_tenant=self.per_tenant,
            per_queue=self.per_queue,
            overall=self.overall,
            rate_per_tenant=self.rate_per_tenant,
        )
        if mistakes:
            raise InvariantError(f"A worker's limits: {' '.join(mistakes)}")


def mistakes_in(
    *,
    per_tenant: object = None,
    per_queue: object = None,
    overall: object = None,
    rate_per_tenant: object = None,
) -> list[str]:
    """List in words what cannot be meant as caps."""
    caps = {"per_tenant": per_tenant, "per_queue": per_queue, "overall": overall}
    found = [
        f"{name} must be a whole number from 0 to {MAX_CAP:,}."
        for name, cap in caps.items()
        if cap is not None and not _is_cap(cap)
    ]
    return found if rate_per_tenant is None else found + _mistakes_in_rate(rate_per_tenant)


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The run may not start now."""

    reason: Reason


class Ticket:
    """The place of one admitted run; it is given back once, however often that is said."""

    __slots__ = ("_begun", "_give_back")

    def __init__(self, give_back: Callable[[bool], None]) -> None:
        self._give_back: Callable[[bool], None] | None = give_back
        self._begun = False

    def started(self) -> None:
        """Say that the body was entered: the start counts from now on, whatever follows."""
        self._begun = True

    def release(self) -> None:
        """Give the place back; the start stays counted."""
        self._end(counted=True)

    def abandon(self) -> None:
        """Give the place back of a run that never began: its start is not counted."""
        self._end(counted=self._begun)

    def _end(self, *, counted: bool) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back(counted)


@dataclass(slots=True)
class _Tenant:
    running: int = 0
    level: Level | None = None
    fillings: int = 0
    refusals: int = 0
    refused_at: float = float("-inf")

    def throttled(self, now: float) -> int:
        return self.refusals if now - self.refused_at < FORGET_REFUSALS_AFTER else 0


class ConcurrencyLimiter:
    """Admits runs within the caps of this process. Not thread-safe: one thread owns it.

    ``now`` is the reading of a monotonic clock, in seconds.

    Args:
        limits: the caps.
        max_tenants: tenants to remember. Past it the least throttled are forgotten first, and
            begin anew; one that has something running never is.

    """

    def __init__(self, limits: Limits, *, max_tenants: int = MAX_TENANTS) -> None:
        self._limits = limits
        self._max_tenants = max_tenants
        self._running = 0
        self._queues: Counter[str] = Counter()
        self._tenants: dict[str, _Tenant] = {}
        self._bucket = _bucket(limits)

    def admit(self, queue: str, tenant: str | None, now: float) -> Ticket | Refusal:
        """Give a run its place, or say which cap is full.

        A run without a tenant is under the caps of its queue and of the process only.
        """
        limits = self._limits
        if _is_full(limits.overall, self._running):
            return Refusal(Reason.OVERALL)
        if _is_full(limits.per_queue, self._queues[queue]):
            return Refusal(Reason.PER_QUEUE)
        known = self._known(tenant, now)
        refused = self._refused(known, now) if known is not None else None
        if refused is not None:
            return Refusal(refused)
        self._running += 1
        self._queues[queue] += 1
        if known is None:
            return Ticket(lambda counted: self._back(queue))
        known.running += 1
        filled = known.fillings
        return Ticket(lambda counted: self._back_of(known, queue, filled, counted=counted))

    def throttled(self, tenant: str, now: float) -> int:
        """Answer how often a tenant was refused, until it has not been for a minute."""
        known = self._tenants.get(tenant)
        return known.throttled(now) if known is not None else 0

    def __len__(self) -> int:
        """Answer how many tenants are remembered."""
        return len(self._tenants)

    def _known(self, tenant: str | None, now: float) -> _Tenant | None:
        limits = self._limits
        if tenant is None or (limits.per_tenant is None and limits.rate_per_tenant is None):
            return None
        known = self._tenants.get(tenant)
        if known is None:
            if len(self._tenants) >= self._max_tenants:
                self._make_room(now)
            known = self._tenants[tenant] = _Tenant()
        return known

    def _refused(self, known: _Tenant, now: float) -> Reason | None:
        """Answer what a tenant is refused by; if by nothing, its start is taken."""
        reason = None
        if _is_full(self._limits.per_tenant, known.running):
            reason = Reason.PER_TENANT
        elif self._limits.rate_per_tenant is not None and not self._may_start(known, now):
            reason = Reason.RATE_PER_TENANT
        if reason is not None:
            known.refusals = known.throttled(now) + 1
            known.refused_at = now
        return reason

    def _may_start(self, known: _Tenant, now: float) -> bool:
        if self._bucket is None:
            return False
        known.level = refilled(self._bucket, known.level, now)
        known.fillings += known.level.tokens >= self._bucket.capacity
        known.level, taken = take(self._bucket, known.level, 1.0, now, comes_back=False)
        return taken.granted

    def _back(self, queue: str) -> None:
        self._running -= 1
        self._queues[queue] -= 1
        if not self._queues[queue]:
            del self._queues[queue]

    def _back_of(self, known: _Tenant, queue: str, filled: int, *, counted: bool) -> None:
        """Give back a tenant's place, and its start unless the bucket has made up for it since."""
        self._back(queue)
        known.running -= 1
        if not counted and known.level is not None and known.fillings == filled:
            known.level = replace(known.level, tokens=known.level.tokens + 1.0)

    def _make_room(self, now: float) -> None:
        """Forget those who lose least by it: the least throttled, and among them the fullest."""
        idle = [name for name, tenant in self._tenants.items() if not tenant.running]
        some = max(1, self._max_tenants // _EVICTED_AT_ONCE)
        for name in heapq.nsmallest(some, idle, key=lambda name: self._loss(name, now)):
            del self._tenants[name]

    def _loss(self, name: str, now: float) -> tuple[int, float]:
        tenant = self._tenants[name]
        if self._bucket is None:
            return tenant.throttled(now), 0.0
        return tenant.throttled(now), -refilled(self._bucket, tenant.level, now).tokens


def _is_full(cap: int | None, running: int) -> bool:
    return cap is not None and running >= cap


def _bucket(limits: Limits) -> Bucket | None:
    """Answer the bucket of a tenant's starts; ``None`` when there are none to have."""
    if limits.rate_per_tenant is None or limits.rate_per_tenant[0] == 0:
        return None
    return bucket_of(*limits.rate_per_tenant)


def _is_cap(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_CAP


def _mistakes_in_rate(rate: object) -> list[str]:
    if not isinstance(rate, tuple) or len(rate) != 2:
        return ['rate_per_tenant must read like "100/1m", or be a limit and a window.']
    limit, window = rate
    found = []
    if not _is_cap(limit):
        found.append(f"rate_per_tenant's limit must be a whole number from 0 to {MAX_CAP:,}.")
    try:
        duration(window)
    except ValueError as error:
        found.append(f"rate_per_tenant's window {error}.")
    return found
