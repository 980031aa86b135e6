"""``RateLimit``: a budget that bodies and views draw from."""

from __future__ import annotations

import random
from typing import Literal, get_args

from asgiref.sync import sync_to_async

from ultimate_jobs.core.bucket import bucket_of, checked_cost, retry_after
from ultimate_jobs.core.durations import Duration
from ultimate_jobs.core.spec import checked_name
from ultimate_jobs.drivers.base import BucketStore, Unreachable
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import (
    DeclarationInvalid,
    InvariantError,
    RateLimited,
    RateLimitInvalid,
    RateLimitNotShared,
    RateLimitScopeUnset,
    RateLimitStoreUnavailable,
)
from ultimate_jobs.limits.buckets import ProcessBuckets
from ultimate_jobs.process.cancel import in_run, refuse_if_cancelled

Scope = Literal["shared", "process"]


class RateLimit:
    """A token bucket for each key: ``limit`` tokens in a ``window``, refilled steadily.

    Declare it once, at module level, and take from it in the first line of a body::

        gateway = RateLimit("payment-gateway", limit=100, window="1m", scope="shared")


        @job(...)
        def charge(run: Run[Charge]) -> None:
            gateway.take(run.input.org)

    A full bucket allows ``limit`` at once, so a window may see up to twice the limit.

    Args:
        name: what is limited; all processes that use the name share its buckets.
        limit: tokens in a window, from 1; the most that a bucket holds.
        window: the time in which an empty bucket fills.
        scope: ``shared`` is one budget for the fleet, in the database; ``process`` is one for
            each process, in memory.

    Raises:
        RateLimitInvalid: the name or a number cannot be.
        RateLimitScopeUnset: there is no scope.

    """

    def __init__(
        self, name: str, *, limit: float, window: Duration, scope: Scope | None = None
    ) -> None:
        self.name = _checked(name)
        self._bucket = bucket_of(limit, window)
        if scope is None:
            raise RateLimitScopeUnset(f"The rate limit '{self.name}' declares no scope.")
        if scope not in get_args(Scope):
            raise RateLimitInvalid("scope must be 'shared' or 'process'.")
        self.scope: Scope = scope
        self._in_memory = ProcessBuckets()
        self._dice = random.Random()  # noqa: S311 - spreads waits, hides nothing

    def __repr__(self) -> str:
        return f"<rate limit {self.name}>"

    def take(self, key: str = "", *, cost: float = 1) -> None:
        """Take tokens, or raise ``RateLimited``; nothing waits here.

        A run that is refused goes on later, uncounted, and each at a time of its own. Outside a
        run the error says when to come back. The tokens are spent at once, whatever becomes of a
        transaction that is open: such a take uses a second connection.

        Args:
            key: whose budget: a tenant, an address. It is in the error's ``meta`` only.
            cost: tokens to take, above zero, at most the limit.

        Raises:
            RateLimited: the budget is spent; ``meta["retry_after_seconds"]`` says for how long.
            RateLimitInvalid: the cost cannot be.
            InvariantError: the key is no text, too long, or cannot be stored.
            RateLimitNotShared: the scope is ``shared`` and the driver's store is not.
            RateLimitStoreUnavailable: no answer came; nothing may be assumed.

        """
        refuse_if_cancelled()
        cost = checked_cost(self._bucket, cost)
        stored = f"{self.name}:{_key(key)}"
        try:
            taken = self._store().take(stored, self._bucket, cost, comes_back=in_run())
        except Unreachable as error:
            raise RateLimitStoreUnavailable("The store of the buckets did not answer.") from error
        if taken is None:
            raise RateLimitStoreUnavailable("The store of the buckets gave no answer.")
        if not taken.granted:
            raise RateLimited(
                retry_after(taken.wait, self._dice.random()),
                meta={"rate_limit": self.name, "key": key},
            )

    async def atake(self, key: str = "", *, cost: float = 1) -> None:
        """Take from async code, on the thread that holds Django's connections."""
        await sync_to_async(self.take)(key, cost=cost)

    def _store(self) -> BucketStore:
        if self.scope == "process":
            return self._in_memory
        driver = get_driver()
        store = driver.rate_limits
        if store is None or not store.shared:
            raise RateLimitNotShared(
                f"The rate limit '{self.name}' is shared, and the buckets of the driver "
                f"'{driver.name}' are not."
            )
        return store


def _checked(name: str) -> str:
    try:
        name = checked_name("The name of a rate limit", name)
    except DeclarationInvalid as error:
        raise RateLimitInvalid(error.cause) from None
    if ":" in name:
        raise RateLimitInvalid("The name of a rate limit must not hold a colon.")
    return name


def _key(key: str) -> str:
    if key == "":
        return key
    try:
        return checked_name("The key of a rate limit", key)
    except DeclarationInvalid as error:
        raise InvariantError(error.cause, fix="Hash long keys, and give each take text.") from None
