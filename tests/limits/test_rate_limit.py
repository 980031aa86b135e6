"""A rate limit: what is refused at its declaration, what a take gets, and what it says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from tests.builders import Declarations, Ping
from tests.limits.budgets import HOUR, a_limit, refusal, stored, takes, time_passes
from tests.worker.running import work
from ultimate_jobs import CancelToken, JobsError, RateLimit, Run
from ultimate_jobs.core.bucket import Bucket, Taken
from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.drivers.handler import get_driver, set_driver
from ultimate_jobs.errors import (
    Aborted,
    InvariantError,
    RateLimited,
    RateLimitInvalid,
    RateLimitNotShared,
    RateLimitScopeUnset,
    RateLimitStoreUnavailable,
)
from ultimate_jobs.limits.buckets import ProcessBuckets
from ultimate_jobs.models import RateLimitBucket
from ultimate_jobs.process.cancel import under

pytestmark = pytest.mark.django_db(transaction=True)

both_scopes = pytest.mark.parametrize("scope", ["shared", "process"])


# Declarations


def test_a_limit_without_a_scope_is_refused() -> None:
    with pytest.raises(RateLimitScopeUnset) as refused:
        RateLimit("gateway", limit=1, window="1m")

    assert refused.value.code == "X_RATE_LIMIT_SCOPE_UNSET"


BAD: list[dict[str, Any]] = [
    {"limit": 0},
    {"limit": math.inf},
    {"limit": "100"},
    {"window": 0},
    {"window": "soon"},
    {"scope": "fleet"},
    {"name": ""},
    {"name": None},
    {"name": "a:b"},
    {"name": "\x00"},
    {"name": "x" * 201},
]


@pytest.mark.parametrize("words", BAD, ids=str)
def test_what_cannot_be_meant_is_refused(words: dict[str, Any]) -> None:
    declared = {"name": "gateway", "limit": 1, "window": "1m", "scope": "shared", **words}

    with pytest.raises(RateLimitInvalid) as refused:
        RateLimit(declared.pop("name"), **declared)

    assert refused.value.code == "X_RATE_LIMIT_INVALID"


# Takes


@both_scopes
class TestTake:
    def test_a_full_bucket_gives_its_limit_and_no_more(self, scope: Any) -> None:
        gateway = a_limit(3, scope=scope)

        assert [takes(gateway) for _ in range(5)] == [True, True, True, False, False]

    def test_each_key_has_a_budget_of_its_own(self, scope: Any) -> None:
        gateway = a_limit(1, scope=scope)

        assert [takes(gateway, key) for key in ("a", "b", "", "a")] == [True, True, True, False]

    def test_each_limit_has_budgets_of_its_own(self, scope: Any) -> None:
        one, other = a_limit(1, scope=scope), a_limit(1, scope=scope)

        assert [takes(one, "a"), takes(other, "a"), takes(one, "a")] == [True, True, False]

    def test_a_cost_is_taken_whole_or_not_at_all(self, scope: Any) -> None:
        gateway = a_limit(3, scope=scope)

        assert takes(gateway, cost=2)
        assert not takes(gateway, cost=2)
        assert takes(gateway, cost=1)

    @pytest.mark.parametrize("cost", [0, -1, 3.5, math.nan, math.inf, True, "1"])
    def test_a_cost_that_can_never_be_had_is_refused(self, scope: Any, cost: Any) -> None:
        with pytest.raises(RateLimitInvalid):
            a_limit(3, scope=scope).take(cost=cost)

    @pytest.mark.parametrize("key", [None, 7, "x" * 201, "\x00", "\ud800"])
    def test_a_key_that_cannot_be_stored_is_refused(self, scope: Any, key: Any) -> None:
        with pytest.raises(InvariantError):
            a_limit(scope=scope).take(key)

    def test_the_key_is_told_to_programs_only(self, scope: Any) -> None:
        gateway = a_limit(1, scope=scope)
        gateway.take("secret-org")

        said = refusal(gateway, "secret-org")

        assert "secret-org" not in str(said)
        assert said.meta["key"] == "secret-org"
        assert said.meta["rate_limit"] == gateway.name

    @pytest.mark.parametrize(
        ("limit", "window", "least", "most"),
        [(1, HOUR, 3_000, 3_600), (1, "1000d", 43_200, 86_400)],
        ids=["until the next token", "at most a day"],
    )
    def test_it_says_when_to_come_back(
        self, scope: Any, limit: float, window: Any, least: float, most: float
    ) -> None:
        gateway = a_limit(limit, window, scope)
        gateway.take(cost=limit)

        seconds = refusal(gateway, cost=limit).meta["retry_after_seconds"]

        assert isinstance(seconds, float)
        assert least <= seconds <= most

    def test_a_cancelled_run_takes_nothing(self, scope: Any) -> None:
        gateway = a_limit(1, scope=scope)
        token = CancelToken()
        token.abort()

        with under(token), pytest.raises(Aborted):
            gateway.take()

        assert takes(gateway)

    def test_async_code_takes_too(self, scope: Any) -> None:
        gateway = a_limit(1, scope=scope)

        async_to_sync(gateway.atake)("a")

        with pytest.raises(RateLimited):
            async_to_sync(gateway.atake)("a")

    def test_it_fills_again(self, scope: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        gateway = a_limit(2, "1000s", scope)
        clock = [100.0]
        monkeypatch.setattr(gateway, "_in_memory", ProcessBuckets(clock=lambda: clock[0]))
        assert [takes(gateway) for _ in range(3)] == [True, True, False]

        clock[0] += 500
        time_passes(500)

        assert [takes(gateway) for _ in range(2)] == [True, False]


# The shared store


def test_what_is_stored() -> None:
    gateway = a_limit(4)

    gateway.take("org")
    after_one = stored(gateway, "org")
    refusal(gateway, "org", cost=4)
    refused = stored(gateway, "org")

    assert (after_one.tokens, after_one.capacity, after_one.spent) == (3, 4, 1)
    assert after_one.refill_per_second == pytest.approx(4 / 3_600)
    assert (refused.spent, 3 <= refused.tokens <= 4) == (0, True)
    assert refused.last_at >= after_one.last_at


def test_a_changed_limit_takes_effect() -> None:
    gateway = a_limit(2)
    assert takes(gateway)

    raised = RateLimit(gateway.name, limit=100, window=HOUR, scope="shared")
    assert [takes(raised), takes(raised)] == [True, False]
    time_passes(3_600)
    assert takes(raised, cost=100)
    time_passes(3_600)
    assert [takes(gateway, cost=2), takes(gateway)] == [True, False]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    gateway = a_limit(1)
    gateway.take()

    time_passes(-7_200)

    assert not takes(gateway)
    time_passes(7_200)
    assert not takes(gateway)


class NoStore:
    """A driver that keeps no buckets, or has what is given for a store."""

    def __init__(self, store: Any = None) -> None:
        self._driver = get_driver()
        self.rate_limits = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)


@contextmanager
def driver_with(store: Any) -> Iterator[None]:
    set_driver(NoStore(store))
    try:
        yield
    finally:
        set_driver(None)


@pytest.mark.parametrize("store", [None, ProcessBuckets()], ids=["no store", "one per process"])
def test_a_shared_limit_needs_a_shared_store(store: Any) -> None:
    with driver_with(store):
        with pytest.raises(RateLimitNotShared) as refused:
            a_limit().take()
        assert takes(a_limit(scope="process"))

    assert refused.value.code == "X_RATE_LIMIT_NOT_SHARED"


class Silent:
    """A store that never answers."""

    shared = True

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def take(self, key: str, bucket: Bucket, cost: float, *, comes_back: bool) -> Taken | None:
        if self._error is not None:
            raise self._error
        return None


@pytest.mark.parametrize("store", [Silent(), Silent(Unreachable())], ids=["no row", "no database"])
def test_no_answer_is_never_taken_for_a_yes(store: Any) -> None:
    with driver_with(store), pytest.raises(RateLimitStoreUnavailable) as refused:
        a_limit().take()

    assert refused.value.code == "X_RATE_LIMIT_STORE_UNAVAILABLE"


# In line


def test_runs_are_given_turns_and_others_are_not(declare: Declarations) -> None:
    gateway = a_limit(1)
    gateway.take()
    told: list[float] = []

    def body(run: Run[Ping]) -> None:
        try:
            gateway.take()
        except JobsError as error:
            seconds = error.meta["retry_after_seconds"]
            assert isinstance(seconds, float)
            told.append(seconds)

    handle = declare(body)
    handle.enqueue_many([Ping(f"k{number}") for number in range(4)])
    work(handle, concurrency=1)
    outside = refusal(gateway).meta["retry_after_seconds"]

    assert told == pytest.approx([3_600, 7_200, 10_800, 14_400], abs=300)
    assert outside == pytest.approx(3_600, abs=300)


# The store of a process


class TestProcessBuckets:
    bucket = Bucket(2.0, 1.0)

    def test_it_remembers_so_many_keys_and_no_more(self) -> None:
        buckets = ProcessBuckets(max_keys=100, clock=lambda: 0.0)
        for number in range(1_000):
            buckets.take(f"k{number}", self.bucket, 1, comes_back=False)

        assert len(buckets) <= 100

    def test_the_fullest_are_forgotten_first(self) -> None:
        buckets = ProcessBuckets(max_keys=20, clock=lambda: 0.0)
        buckets.take("spent", self.bucket, 2, comes_back=False)
        for number in range(1_000):
            buckets.take(f"k{number}", self.bucket, 1, comes_back=False)

        assert not buckets.take("spent", self.bucket, 1, comes_back=False).granted


# Purging


def all_passes(limit: int) -> list[int]:
    store = get_driver().rate_limits
    assert store is not None
    after, deleted = "", []
    while True:
        done = store.purge(limit, after)
        deleted.append(done.deleted)
        if done.after is None:
            return deleted
        after = done.after


def test_a_purge_deletes_what_is_full_again_in_bounded_passes() -> None:
    gateway = a_limit(10, "10s")
    for number in range(7):
        gateway.take(f"k{number}")
    time_passes(5)
    slow = a_limit(2)
    slow.take("waits")

    deleted = all_passes(3)

    assert sum(deleted) == 7
    assert max(deleted) <= 3
    assert [bucket.key for bucket in RateLimitBucket.objects.all()] == [f"{slow.name}:waits"]
    assert takes(gateway, "k1")


def test_a_purge_of_nothing_ends() -> None:
    assert all_passes(10) == [0]
