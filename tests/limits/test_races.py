"""Many connections at one bucket, and transactions around a take."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.test import TestCase
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.builders import PATIENCE, at_once, rolled_back, second_connection, wait_for_blocked
from tests.limits.budgets import a_limit, stored, takes, time_passes
from ultimate_jobs.core.bucket import LEAST_WAIT, LONGEST_WAIT, Bucket, Level, take
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.models import RateLimitBucket


@pytest.mark.django_db(transaction=True)
class TestRaces:
    @pytest.mark.parametrize("scope", ["shared", "process"])
    def test_of_many_at_once_exactly_the_limit_are_granted(self, scope: str) -> None:
        gateway = a_limit(20, scope=scope)  # type: ignore[arg-type]

        def some() -> int:
            return sum(takes(gateway, "org") for _ in range(10))

        assert sum(at_once(*[some] * 8)) == 20

    def test_a_take_reads_the_bucket_only_once_it_holds_it(self) -> None:
        gateway = a_limit(2)
        gateway.take()
        with transaction.atomic():
            RateLimitBucket.objects.update(tokens=0)
            waiting = second_connection(lambda: takes(gateway))
            second_connection(wait_for_blocked).result(2 * PATIENCE)

        assert waiting.result(PATIENCE) is False

    def test_a_bucket_that_is_purged_meanwhile_begins_anew(self) -> None:
        gateway = a_limit(1)
        gateway.take()
        time_passes(3_600)
        with transaction.atomic():
            assert RateLimitBucket.objects.all().delete()[0] == 1
            waiting = second_connection(lambda: takes(gateway))
            second_connection(wait_for_blocked).result(2 * PATIENCE)

        assert waiting.result(PATIENCE) is True
        assert stored(gateway).tokens == 0

    def test_a_purge_waits_for_nobody(self) -> None:
        gateway = a_limit(1)
        gateway.take()
        time_passes(3_600)
        store = get_driver().rate_limits
        assert store is not None
        with rolled_back():
            RateLimitBucket.objects.select_for_update().get()
            assert second_connection(lambda: store.purge(10)).result(PATIENCE).deleted == 0

        assert store.purge(10).deleted == 1


@pytest.mark.django_db(transaction=True)
class TestTransactions:
    def test_a_take_is_no_part_of_the_transaction_around_it(self) -> None:
        gateway = a_limit(1)
        with rolled_back():
            gateway.take()

        assert not takes(gateway)

    def test_a_take_in_a_transaction_holds_up_nobody(self) -> None:
        gateway = a_limit(2)
        with transaction.atomic():
            gateway.take()
            assert second_connection(lambda: takes(gateway)).result(PATIENCE)

    def test_two_transactions_that_take_in_turn_never_wait_for_each_other(self) -> None:
        gateway = a_limit(10)
        meet = threading.Barrier(2)

        def both(first: str, second: str) -> Callable[[], bool]:
            def work() -> bool:
                with transaction.atomic():
                    gateway.take(first)
                    meet.wait(PATIENCE)
                    return takes(gateway, second)

            return work

        assert at_once(both("a", "b"), both("b", "a")) == [True, True]

    def test_a_take_works_in_a_transaction_that_is_broken(self) -> None:
        gateway = a_limit(1)
        with suppress(ZeroDivisionError), transaction.atomic():
            with suppress(ZeroDivisionError), transaction.atomic(savepoint=False):
                raise ZeroDivisionError
            assert takes(gateway)
            raise ZeroDivisionError

        assert not takes(gateway)


class InsideATestCaseTests(TestCase):
    def test_a_take_ends_with_the_test(self) -> None:
        gateway = a_limit(1)
        with transaction.atomic():
            gateway.take("org")

        assert not takes(gateway, "org")
        assert second_connection(lambda: takes(gateway, "another")).result(PATIENCE)
        RateLimitBucket.objects.filter(key=f"{gateway.name}:another").delete()

    def test_nothing_is_left_for_the_next_test(self) -> None:
        assert not RateLimitBucket.objects.filter(key__endswith=":org").exists()


EPOCH = datetime(2030, 1, 1, tzinfo=UTC)

steps = st.lists(
    st.tuples(st.integers(-3_000, 60_000), st.integers(1, 8), st.booleans()),
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@pytest.mark.django_db
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(1, 8), st.integers(1, 200_000), steps)
def test_the_statement_computes_as_the_core_does(
    capacity: int, window: int, calls: list[tuple[int, int, bool]]
) -> None:
    bucket = Bucket(float(capacity), capacity / window)
    level: Level | None = None
    now = 0.0
    instants = [EPOCH]
    database = Database(clock=lambda: instants[-1])
    with rolled_back():
        for milliseconds, cost, comes_back in calls:
            now = round(now + milliseconds / 1_000, 3)
            paid = float(min(cost, capacity))
            level, taken = take(bucket, level, paid, now, comes_back=comes_back)
            instants.append(EPOCH + timedelta(seconds=now))
            ((granted, wait),) = database.rows(
                sql.RATE_LIMIT_TAKE,
                {
                    "key": "limit:key",
                    "capacity": bucket.capacity,
                    "refill_per_second": bucket.refill_per_second,
                    "cost": paid,
                    "comes_back": comes_back,
                    "least_wait": LEAST_WAIT,
                    "longest_wait": LONGEST_WAIT,
                },
            )
            row = RateLimitBucket.objects.get(key="limit:key")
            assert row.tokens == pytest.approx(level.tokens, abs=1e-3)
            assert (row.last_at - EPOCH).total_seconds() == pytest.approx(level.at, abs=1e-3)
            promised = (row.promised_until - EPOCH).total_seconds()
            assert promised == pytest.approx(level.promised, abs=1e-2)
            if granted != taken.granted:  # the two round differently where a token is just full
                assert min(level.tokens, abs(level.tokens - paid)) == pytest.approx(0, abs=1e-3)
                return
            if not granted:
                assert wait == pytest.approx(taken.wait, abs=1e-2)
