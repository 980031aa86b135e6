"""The arithmetic of a token bucket, on whatever clock the caller reads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ultimate_jobs.core.durations import Duration, duration
from ultimate_jobs.errors import RateLimitInvalid

LEAST_WAIT = 1.0
"""Seconds a refused caller waits at least."""

LONGEST_WAIT = 86_400.0
"""Seconds a refused caller waits at most; then it asks again."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """At most ``capacity`` tokens, refilled steadily."""

    capacity: float
    refill_per_second: float


@dataclass(frozen=True, slots=True)
class Level:
    """How full a bucket was at an instant, and until when refused runs have been given turns."""

    tokens: float
    at: float
    promised: float


@dataclass(frozen=True, slots=True)
class Taken:
    """What a take got: its tokens, or the seconds until it may have them."""

    granted: bool
    wait: float = 0.0


def bucket_of(limit: float, window: Duration) -> Bucket:
    """Read ``limit`` tokens in every ``window``: a full bucket holds the limit.

    Raises:
        RateLimitInvalid: the limit is below 1 or not finite, or the window is no duration, or
            their quotient is no rate.

    """
    if not _is_number(limit) or not 1 <= limit < math.inf:
        raise RateLimitInvalid("limit must be a finite number from 1.")
    try:
        seconds = duration(window).total_seconds()
    except ValueError as error:
        raise RateLimitInvalid(f"window {error}.") from None
    try:
        capacity = float(limit)
    except OverflowError:
        raise RateLimitInvalid("limit must be a finite number from 1.") from None
    if not 0 < capacity / seconds < math.inf:
        raise RateLimitInvalid("limit and window make no finite rate.")
    return Bucket(capacity, capacity / seconds)


def checked_cost(bucket: Bucket, cost: float) -> float:
    """Accept what a take costs.

    Raises:
        RateLimitInvalid: it is zero or less, not finite, or more than the bucket ever holds.

    """
    if not _is_number(cost) or not 0 < cost <= bucket.capacity:
        raise RateLimitInvalid("cost must be a number above zero, and at most the limit.")
    return float(cost)


def refilled(bucket: Bucket, level: Level | None, now: float) -> Level:
    """Answer the level at ``now``; a clock that goes back stands still.

    A new bucket is full. One that is full again has kept nobody waiting: its promises are over.
    """
    if level is None:
        return Level(bucket.capacity, now, now)
    now = max(now, level.at)
    tokens = level.tokens + (now - level.at) * bucket.refill_per_second
    if tokens >= bucket.capacity:
        return Level(bucket.capacity, now, now)
    return Level(tokens, now, max(level.promised, now))


def take(
    bucket: Bucket, level: Level | None, cost: float, now: float, *, comes_back: bool
) -> tuple[Level, Taken]:
    """Take ``cost`` tokens, or nothing; answer the new level and what was got.

    A refused caller that ``comes_back`` is given the turn after the last one that was promised, so
    that those refused at one moment return one after the other, at the pace of the refill. A turn
    is no reservation: whoever comes while there are tokens gets them.
    """
    held = refilled(bucket, level, now)
    if held.tokens >= cost:
        return Level(held.tokens - cost, held.at, held.promised), Taken(granted=True)
    wait = (cost - held.tokens) / bucket.refill_per_second
    if not comes_back:
        return held, Taken(granted=False, wait=wait)
    turn = held.at + max(wait, LEAST_WAIT)
    if held.promised > held.at:
        turn = max(turn, held.promised + cost / bucket.refill_per_second)
    turn = min(turn, held.at + LONGEST_WAIT)
    return Level(held.tokens, held.at, turn), Taken(granted=False, wait=turn - held.at)


def retry_after(wait: float, roll: float) -> float:
    """Answer the seconds to tell a refused caller: whole milliseconds, from a second to a day.

    Turns that lie past a day are spread over its second half by ``roll`` in 0..1.
    """
    if wait >= LONGEST_WAIT:
        return LONGEST_WAIT * (0.5 + roll / 2)
    return min(max(math.ceil(wait * 1_000) / 1_000, LEAST_WAIT), LONGEST_WAIT)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
