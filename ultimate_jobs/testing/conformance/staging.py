"""What transactions stage, and how it becomes jobs."""

from __future__ import annotations

import pytest

from ultimate_jobs.core.records import Batch, Enqueued, RelayPass
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import Part, PublishRefused
from ultimate_jobs.testing.conformance.scene import HOUR, PATIENCE, SECOND, Scene, Suite


class TestStaging(Suite, needs={Part.TRANSACTIONS}):
    def test_a_driver_knows_whether_a_transaction_is_open(self, scene: Scene) -> None:
        outbox = scene.driver.outbox

        assert not outbox.in_transaction()
        assert scene.driver.steps.transact(outbox.in_transaction)
        assert not outbox.in_transaction()

    def test_a_transaction_of_its_own_is_no_foreign_one(self, scene: Scene) -> None:
        outbox = scene.driver.outbox

        assert not outbox.in_foreign_transaction()
        assert not scene.driver.steps.transact(outbox.in_foreign_transaction)

    def test_what_is_staged_is_seen_by_nobody_before_the_commit(self, scene: Scene) -> None:
        with scene.held_open(lambda: scene.stage("a")):
            assert scene.driver.outbox.pending() == 0
            assert scene.relay() == RelayPass()

        assert scene.driver.outbox.pending() == 1

    def test_what_is_rolled_back_was_never_staged(self, scene: Scene) -> None:
        scene.undo(lambda: scene.stage("a"))

        assert scene.driver.outbox.pending() == 0
        assert not scene.holds_its_key("a")

    def test_a_savepoint_that_is_undone_takes_only_its_own_with_it(self, scene: Scene) -> None:
        def work() -> None:
            scene.stage("a")
            scene.undo(lambda: scene.stage("b"))
            scene.driver.steps.transact(lambda: scene.stage("c"))

        scene.driver.steps.transact(work)

        assert scene.relay() == RelayPass(seen=2, published=2)
        assert not scene.holds_its_key("b")

    def test_a_transaction_sees_what_it_has_staged(self, scene: Scene) -> None:
        def work() -> list[Enqueued]:
            return scene.stage("a") + scene.stage("a")

        first, second = scene.driver.steps.transact(work)

        assert second == Enqueued(first.id, first.run_id, deduped=True)


class TestRelay(Suite):
    def test_a_staged_job_is_published_under_the_id_it_was_given(self, scene: Scene) -> None:
        (staged,) = scene.stage("a", text='{"n": 1}', tenant_id="acme", traceparent="00-trace")
        assert scene.claimed() == []

        assert scene.relay() == RelayPass(seen=1, published=1)

        job = scene.take()
        assert (job.id, job.run_id) == (staged.id, staged.run_id)
        assert (job.tenant_id, job.traceparent, job.attempt) == ("acme", "00-trace", 1)
        assert scene.driver.outbox.pending() == 0

    def test_an_empty_pass_says_that_it_saw_nothing(self, scene: Scene) -> None:
        assert scene.relay() == RelayPass()

    def test_the_oldest_are_moved_first_and_no_more_than_asked_for(self, scene: Scene) -> None:
        staged = []
        for key in "abc":
            staged += scene.stage(key)
            scene.clock.advance(SECOND)

        assert scene.relay(2) == RelayPass(seen=2, published=2)

        assert sorted(scene.claimed()) == sorted(answer.id for answer in staged[:2])
        assert scene.driver.outbox.pending() == 1

    def test_what_is_due_later_is_moved_at_once_and_claimed_then(self, scene: Scene) -> None:
        (staged,) = scene.stage("a", delay=HOUR)

        assert scene.relay().published == 1
        assert scene.claimed() == []
        scene.clock.advance(HOUR)
        assert scene.claimed() == [staged.id]

    def test_what_was_staged_for_later_waits_no_longer_for_having_been_moved_late(
        self, scene: Scene
    ) -> None:
        (staged,) = scene.stage("a", delay=HOUR)
        scene.clock.advance(HOUR)

        scene.relay()

        assert scene.claimed() == [staged.id]

    def test_a_repeated_id_adds_no_job_even_when_that_has_ended(self, scene: Scene) -> None:
        batch = scene.batch("a")
        scene.driver.outbox.stage(batch)
        scene.relay()
        scene.settle(scene.take())

        scene.driver.outbox.stage(batch)

        assert scene.relay() == RelayPass(seen=1, deduped=1)
        assert scene.relay() == RelayPass()
        assert scene.claimed() == []

    def test_a_key_freed_before_the_pass_gets_a_job_of_its_own(self, scene: Scene) -> None:
        scene.ended(JobState.DONE)
        (staged,) = scene.stage("a")

        assert scene.relay().published == 1
        assert scene.claimed() == [staged.id]

    def test_relays_at_one_moment_publish_each_row_once(self, scene: Scene) -> None:
        staged = scene.stage(*"abcdefgh")

        passes = scene.at_once(*[lambda: scene.relay(4)] * 3)
        passes.append(scene.relay())

        assert sum(done.published for done in passes) == 8
        assert sum(done.seen for done in passes) == 8
        assert sorted(scene.claimed()) == sorted(answer.id for answer in staged)


class TestRefusedRows(Suite):
    def refused(self, scene: Scene, key: str = "bad") -> Enqueued:
        (staged,) = scene.stage(key, max_attempts=0)
        scene.clock.advance(SECOND)
        return staged

    def test_a_pass_with_a_row_that_is_refused_moves_nothing(self, scene: Scene) -> None:
        scene.stage("a")
        self.refused(scene)

        with pytest.raises(PublishRefused):
            scene.relay()

        assert scene.claimed() == []
        assert scene.driver.outbox.pending() == 2

    def test_it_is_found_and_the_others_are_moved(self, scene: Scene) -> None:
        good = scene.stage("a")
        bad = self.refused(scene)
        good += scene.stage("b", "c")

        moved, poison = scene.driver.outbox.isolate(100)

        assert moved == RelayPass(seen=3, published=3)
        assert [(row.id, bool(row.error)) for row in poison] == [(bad.id, True)]
        assert sorted(scene.claimed()) == sorted(answer.id for answer in good)
        assert scene.driver.outbox.pending() == 1

    def test_several_are_all_found(self, scene: Scene) -> None:
        bad = {self.refused(scene, key).id for key in ("x", "y", "z")}

        moved, poison = scene.driver.outbox.isolate(100)

        assert moved == RelayPass()
        assert {row.id for row in poison} == bad

    def test_it_is_tried_again_ever_more_rarely_and_holds_up_no_other(self, scene: Scene) -> None:
        self.refused(scene)
        for rest in (SECOND, 2 * SECOND, 4 * SECOND):
            scene.driver.outbox.isolate(100)
            scene.clock.advance(rest - SECOND / 10)
            scene.stage(f"after {rest}")
            assert scene.relay() == RelayPass(seen=1, published=1)
            scene.clock.advance(SECOND / 10)
            with pytest.raises(PublishRefused):
                scene.relay()


class TestOpenTransactions(Suite, needs={Part.TRANSACTIONS}):
    def test_a_pass_waits_for_no_row_that_another_transaction_holds(self, scene: Scene) -> None:
        scene.stage("a")
        with scene.held_open(scene.relay, undone=True) as held:
            assert held.published == 1
            scene.stage("b")
            other = scene.elsewhere(scene.relay)
            assert other.result(PATIENCE) == RelayPass(seen=1, published=1)

        assert scene.relay() == RelayPass(seen=1, published=1)

    def test_a_batch_is_staged_whole_or_not_at_all(self, scene: Scene) -> None:
        good, bad = scene.batch("a"), scene.batch("b", text="{")
        both = Batch(
            name=good.name,
            queue=good.queue,
            max_attempts=good.max_attempts,
            jobs=[*good.jobs, *bad.jobs],
        )

        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the store says
            scene.driver.outbox.stage(both)

        assert scene.driver.outbox.pending() == 0
