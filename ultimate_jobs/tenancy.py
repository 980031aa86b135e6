"""Who is at work, and for which tenant.

The actor is ambient: it rides a context variable, so a request sets it once and every enqueue
below knows whose it is. A body runs with its worker's actor, moved to the tenant that the job's
input names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from ultimate_jobs.errors import ActorOrgRequired, CrossTenantDenied, InvariantError

CROSS_CAPABILITY = "tenancy:cross"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody acting: an id for the record, a tenant, and capabilities. Never authority."""

    id: str | None = None
    org: str | None = None
    capabilities: frozenset[str] = frozenset()


_actor: ContextVar[Actor | None] = ContextVar("ultimate_jobs_actor", default=None)
_crossing: ContextVar[str | None] = ContextVar("ultimate_jobs_crossing", default=None)


def current_actor() -> Actor | None:
    """Answer who is at work; ``None`` outside ``acting_as`` and outside a body."""
    return _actor.get()


def current_tenant() -> str:
    """Answer the tenant at work.

    Raises:
        ActorOrgRequired: there is none.

    """
    actor = _actor.get()
    if actor is None or not actor.org:
        raise ActorOrgRequired("This needs a tenant, and nobody at work here has one.")
    return actor.org


def is_crossing() -> bool:
    """Answer whether a ``cross_tenant`` block is open."""
    return _crossing.get() is not None


@contextmanager
def acting_as(actor: Actor | None) -> Iterator[None]:
    """Work as ``actor`` inside the block."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def enter_tenant(org: str | None) -> None:
    """Work for a tenant, or for none, as whoever is at work, for the rest of the context."""
    actor = _actor.get()
    if org is not None or actor is not None:
        _actor.set(replace(actor or Actor(), org=org))


@contextmanager
def in_tenant(org: str | None) -> Iterator[None]:
    """Work for another tenant, or for none, as whoever is at work."""
    with acting_as(replace(_actor.get() or Actor(), org=org)):
        yield


@contextmanager
def cross_tenant(why: str) -> Iterator[None]:
    """Lift the comparison with the ambient actor's tenant inside the block.

    Args:
        why: the reason, for whoever reads the code.

    Raises:
        CrossTenantDenied: the actor lacks the capability ``tenancy:cross``.
        InvariantError: no reason was given.

    """
    if not why:
        raise InvariantError("cross_tenant needs a reason.")
    actor = _actor.get()
    if actor is None or CROSS_CAPABILITY not in actor.capabilities:
        raise CrossTenantDenied("Nobody at work here may cross tenants.")
    token = _crossing.set(why)
    try:
        yield
    finally:
        _crossing.reset(token)
