"""Rate limits for tests, and what is stored of them."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

from ultimate_jobs import RateLimit
from ultimate_jobs.core.durations import Duration
from ultimate_jobs.errors import RateLimited
from ultimate_jobs.limits.rate_limit import Scope
from ultimate_jobs.models import RateLimitBucket

_numbers = itertools.count(1)

HOUR = timedelta(hours=1)


def a_limit(limit: float = 3, window: Duration = HOUR, scope: Scope = "shared") -> RateLimit:
    """Declare a rate limit under a name of its own; so slow that no test sees it refill."""
    return RateLimit(f"limit-{next(_numbers)}", limit=limit, window=window, scope=scope)


def takes(limit: RateLimit, key: str = "", **options: Any) -> bool:
    """Take, and answer whether that was granted."""
    try:
        limit.take(key, **options)
    except RateLimited:
        return False
    return True


def refusal(limit: RateLimit, key: str = "", **options: Any) -> RateLimited:
    """Take in vain."""
    try:
        limit.take(key, **options)
    except RateLimited as error:
        return error
    raise AssertionError("it was granted")


def stored(limit: RateLimit, key: str = "") -> RateLimitBucket:
    return RateLimitBucket.objects.get(key=f"{limit.name}:{key}")


def time_passes(seconds: float) -> None:
    """Let every stored bucket have been taken from so much earlier."""
    for bucket in RateLimitBucket.objects.all():
        span = timedelta(seconds=seconds)
        bucket.last_at -= span
        bucket.promised_until -= span
        bucket.save()
