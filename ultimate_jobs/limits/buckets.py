"""The buckets of one process, in memory."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable

from ultimate_jobs.core.bucket import Bucket, Level, Taken, refilled, take
from ultimate_jobs.process.clock import monotonic

MAX_KEYS = 20_000
"""Buckets that a process remembers for one rate limit."""

_EVICTED_AT_ONCE = 20  # a twentieth of what is remembered


class ProcessBuckets:
    """Buckets by key, for every thread of this process.

    Past ``max_keys`` the fullest are forgotten first: a full bucket and none are the same.
    """

    def __init__(self, *, max_keys: int = MAX_KEYS, clock: Callable[[], float] = monotonic) -> None:
        self._max_keys = max_keys
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: dict[str, Level] = {}

    def __len__(self) -> int:
        """Answer how many buckets are remembered."""
        return len(self._levels)

    @property
    def shared(self) -> bool:
        """Whether other processes draw from the same buckets."""
        return False

    def take(self, key: str, bucket: Bucket, cost: float, *, comes_back: bool) -> Taken:
        """Take tokens from the bucket of a key."""
        with self._lock:
            now = self._clock()
            level = self._levels.get(key)
            if level is not None and level.at > now:
                level = None  # by another clock: one that a test had put in place
            if level is None and len(self._levels) >= self._max_keys:
                self._make_room(bucket, now)
            self._levels[key], taken = take(bucket, level, cost, now, comes_back=comes_back)
            return taken

    def _make_room(self, bucket: Bucket, now: float) -> None:
        def missing(key: str) -> float:
            return -refilled(bucket, self._levels[key], now).tokens

        some = max(1, self._max_keys // _EVICTED_AT_ONCE)
        for key in heapq.nsmallest(some, self._levels, key=missing):
            del self._levels[key]
