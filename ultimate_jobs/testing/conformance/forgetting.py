"""What is deleted when it is old."""

from __future__ import annotations

import pytest

from ultimate_jobs.core.records import ClaimedJob, SlotRequest
from ultimate_jobs.core.states import LIVE, TERMINAL, JobState
from ultimate_jobs.drivers.base import Part
from ultimate_jobs.testing.conformance.scene import (
    DAY,
    HOUR,
    LEASE,
    SECOND,
    WORKER,
    Scene,
    Suite,
)
from ultimate_jobs.testing.conformance.waiting import publish


class TestForgettingJobs(Suite, needs={Part.RETENTION}):
    def delete(self, scene: Scene, state: JobState = JobState.DONE, limit: int = 100) -> int:
        return scene.driver.retention.delete_jobs(state, scene.clock(), limit)

    def test_the_clock_is_that_of_the_rows(self, scene: Scene) -> None:
        assert scene.driver.retention.clock() == scene.clock()

    @pytest.mark.parametrize("state", sorted(TERMINAL))
    def test_jobs_that_ended_long_ago_go_state_by_state(
        self, scene: Scene, state: JobState
    ) -> None:
        scene.ended(state)
        scene.ended(JobState.DONE if state is not JobState.DONE else JobState.DEAD, "b")

        assert self.delete(scene, state) == 0
        scene.clock.advance(SECOND)
        assert self.delete(scene, state) == 1
        assert self.delete(scene, state) == 0

    @pytest.mark.parametrize("state", sorted(LIVE))
    def test_a_live_job_never_goes(self, scene: Scene, state: JobState) -> None:
        scene.enqueue("delayed", delay=DAY)
        scene.sleep(scene.running("suspended"), DAY)
        scene.running("running")
        scene.enqueue("ready")
        scene.clock.advance(HOUR)

        assert self.delete(scene, state) == 0

    def test_the_oldest_go_first_and_no_more_than_asked_for(self, scene: Scene) -> None:
        for key in "abc":
            scene.ended(JobState.DONE, key)
            scene.clock.advance(SECOND)

        assert (
            scene.driver.retention.delete_jobs(JobState.DONE, scene.clock() - 2 * SECOND, 100) == 1
        )
        assert self.delete(scene, limit=1) == 1
        assert self.delete(scene) == 1

    def test_its_steps_go_with_it_and_no_others(self, scene: Scene) -> None:
        gone, kept = scene.running("a"), scene.running("b")
        scene.put(gone)
        scene.put(kept)
        scene.settle(gone)
        scene.clock.advance(SECOND)

        self.delete(scene)

        assert scene.steps(gone) == {}
        assert list(scene.steps(kept)) == ["charge"]


class TestForgettingTheRest(Suite, needs={Part.RETENTION}):
    def test_receipts_of_staged_jobs_go(self, scene: Scene) -> None:
        batch = scene.batch("a")
        scene.driver.outbox.stage(batch)
        scene.relay()
        scene.settle(scene.take())
        scene.driver.outbox.stage(batch)
        scene.relay()
        waits = scene.stage("b")
        scene.clock.advance(SECOND)

        assert scene.driver.retention.delete_receipts(scene.clock(), 100) == 1
        assert scene.driver.outbox.pending() == len(waits)

    def test_counters_of_a_span_go(self, scene: Scene) -> None:
        scene.settle(scene.running())
        later = scene.clock() + HOUR

        assert scene.driver.retention.delete_counters(5, later, 100) == 0
        assert scene.driver.retention.delete_counters(1, scene.clock() - HOUR, 100) == 0
        assert scene.driver.retention.delete_counters(1, later, 100) == 1


class TestForgettingEvents(Suite, needs={Part.RETENTION, Part.EVENTS}):
    def test_events_go_once_they_have_expired(self, scene: Scene) -> None:
        publish(scene, ttl=HOUR)
        publish(scene, ttl=DAY)
        scene.clock.advance(HOUR + SECOND)
        delete = scene.driver.retention.delete_events

        assert delete(scene.clock() - HOUR, 100) == 0
        assert delete(scene.clock(), 100) == 1
        scene.clock.advance(DAY)
        assert delete(scene.clock(), 0) == 0
        assert delete(scene.clock(), 100) == 1


class TestForgettingSlots(Suite, needs={Part.RETENTION, Part.SLOTS}):
    def test_slots_go_once_they_have_run_out(self, scene: Scene) -> None:
        job: ClaimedJob = scene.running()
        request = SlotRequest(id=job.id, run_id=job.run_id, claim=job.claim, key="job:a", cap=1)
        slots = scene.driver.slots
        assert slots is not None
        slots.acquire(WORKER, LEASE, [request])
        delete = scene.driver.retention.delete_leases

        assert delete(scene.clock(), 100) == 0
        scene.lapse()
        assert delete(scene.clock(), 100) == 1


class TestForgettingInTransactions(Suite, needs={Part.RETENTION, Part.TRANSACTIONS, Part.OPERATOR}):
    def test_a_job_that_is_being_retried_is_passed_over(self, scene: Scene) -> None:
        job = scene.ended(JobState.DEAD)
        scene.clock.advance(SECOND)

        with scene.held_open(lambda: scene.driver.operator.requeue(job, None)):
            assert scene.driver.retention.delete_jobs(JobState.DEAD, scene.clock(), 100) == 0

        assert scene.claimed() == [job]
