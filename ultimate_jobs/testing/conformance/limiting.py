"""Token buckets that are shared."""

from __future__ import annotations

import pytest

from ultimate_jobs.core.bucket import Bucket, Taken
from ultimate_jobs.core.records import BucketPurge
from ultimate_jobs.drivers.base import Part, RateLimits
from ultimate_jobs.errors import DriverLacks
from ultimate_jobs.testing.conformance.scene import HOUR, PATIENCE, SECOND, Scene, Suite

BUCKET = Bucket(capacity=3, refill_per_second=0.5)
GRANTED = Taken(granted=True)


class BucketSuite(Suite, needs={Part.RATE_LIMITS}):
    """Tests of a driver that has buckets."""

    def limits(self, scene: Scene) -> RateLimits:
        found = scene.driver.rate_limits
        if found is None:
            raise DriverLacks("The driver has no buckets, and does not say so.")
        return found

    def take(
        self,
        scene: Scene,
        key: str = "mail",
        cost: float = 1,
        *,
        bucket: Bucket = BUCKET,
        comes_back: bool = False,
    ) -> Taken | None:
        return self.limits(scene).take(key, bucket, cost, comes_back=comes_back)


class TestTaking(BucketSuite):
    def test_a_bucket_begins_full_and_is_spent(self, scene: Scene) -> None:
        assert [self.take(scene) for _ in range(3)] == [GRANTED] * 3
        assert self.take(scene) == Taken(granted=False, wait=2.0)

    def test_it_says_whether_others_draw_from_it(self, scene: Scene) -> None:
        assert self.limits(scene).shared in {True, False}

    def test_a_refused_take_takes_nothing(self, scene: Scene) -> None:
        self.take(scene, cost=2)

        assert self.take(scene, cost=2) == Taken(granted=False, wait=2.0)
        assert self.take(scene) == GRANTED

    def test_it_is_refilled_by_the_clock_and_holds_no_more_than_it_can(self, scene: Scene) -> None:
        self.take(scene, cost=3)

        scene.clock.advance(2 * SECOND)
        assert self.take(scene) == GRANTED
        scene.clock.advance(HOUR)
        assert self.take(scene, cost=3) == GRANTED
        assert self.take(scene) == Taken(granted=False, wait=2.0)

    def test_a_clock_that_goes_back_gives_nothing(self, scene: Scene) -> None:
        self.take(scene, cost=3)
        scene.clock.advance(-HOUR)

        assert self.take(scene) == Taken(granted=False, wait=2.0)

    def test_keys_have_buckets_of_their_own(self, scene: Scene) -> None:
        self.take(scene, cost=3)

        assert self.take(scene, "fax", cost=3) == GRANTED

    def test_whoever_takes_says_how_large_it_is(self, scene: Scene) -> None:
        self.take(scene, cost=3)
        larger = Bucket(capacity=10, refill_per_second=5)
        scene.clock.advance(SECOND)

        assert self.take(scene, cost=5, bucket=larger) == GRANTED

    def test_those_who_come_back_are_given_turns_one_after_the_other(self, scene: Scene) -> None:
        self.take(scene, cost=3)

        turns = [self.take(scene, comes_back=True) for _ in range(3)]

        assert [turn.wait for turn in turns if turn] == [2.0, 4.0, 6.0]

    def test_a_turn_is_no_reservation(self, scene: Scene) -> None:
        self.take(scene, cost=3)
        self.take(scene, comes_back=True)
        scene.clock.advance(2 * SECOND)

        assert self.take(scene) == GRANTED

    def test_a_bucket_that_is_full_again_has_no_turns_left(self, scene: Scene) -> None:
        self.take(scene, cost=3)
        for _ in range(9):
            self.take(scene, comes_back=True)
        scene.clock.advance(6 * SECOND)
        self.take(scene, cost=3)

        turn = self.take(scene, comes_back=True)

        assert turn == Taken(granted=False, wait=2.0)

    def test_takes_at_one_moment_never_get_more_than_there_is(self, scene: Scene) -> None:
        answers = scene.at_once(*[lambda: self.take(scene)] * 6)

        assert sorted(answer == GRANTED for answer in answers) == [False] * 3 + [True] * 3


class TestTakingInTransactions(BucketSuite, needs={Part.TRANSACTIONS}):
    def test_a_rollback_gives_nothing_back(self, scene: Scene) -> None:
        scene.undo(lambda: self.take(scene, cost=3))

        assert self.take(scene) == Taken(granted=False, wait=2.0)

    def test_an_open_transaction_holds_up_nobody(self, scene: Scene) -> None:
        with scene.held_open(lambda: self.take(scene)):
            other = scene.elsewhere(lambda: self.take(scene))
            assert other.result(PATIENCE) == GRANTED


class TestPurgingBuckets(BucketSuite):
    def test_what_is_full_again_is_deleted(self, scene: Scene) -> None:
        self.take(scene, "full")
        self.take(scene, "spent", cost=3)
        scene.clock.advance(2 * SECOND)

        assert self.limits(scene).purge(10) == BucketPurge(deleted=1, after=None)
        assert self.take(scene, "spent", cost=2) == Taken(granted=False, wait=2.0)

    def test_a_pass_goes_on_behind_the_last_key(self, scene: Scene) -> None:
        for key in "abc":
            self.take(scene, key)
        scene.clock.advance(HOUR)

        first = self.limits(scene).purge(2)
        second = self.limits(scene).purge(2, first.after or "")

        assert (first, second) == (BucketPurge(2, "b"), BucketPurge(1, None))

    def test_nothing_is_there(self, scene: Scene) -> None:
        assert self.limits(scene).purge(10) == BucketPurge(0, None)

    @pytest.mark.parametrize("limit", [1, 5])
    def test_a_bucket_that_is_in_use_is_left(self, scene: Scene, limit: int) -> None:
        self.take(scene, cost=3)

        assert self.limits(scene).purge(limit).deleted == 0
        assert self.take(scene) == Taken(granted=False, wait=2.0)
