"""Signs of life: what keeps a claim, what lets go of it."""

from __future__ import annotations

from ultimate_jobs.core.records import ClaimedJob, HeldClaim, Lost
from ultimate_jobs.core.states import JobState
from ultimate_jobs.testing.conformance.scene import (
    DAY,
    LEASE,
    OTHER_WORKER,
    SECOND,
    WORKER,
    Scene,
    Suite,
)


def held(job: ClaimedJob) -> HeldClaim:
    """Name a claim as its worker does."""
    return HeldClaim(job.id, job.claim)


class TestSignsOfLife(Suite):
    def test_one_keeps_every_claim_that_it_names(self, scene: Scene) -> None:
        scene.enqueue(*"abc")
        claims = [held(job) for job in scene.claim().jobs]

        for _ in range(3):
            scene.clock.advance(LEASE - SECOND)
            assert scene.beat(*claims) == []

        assert scene.claimed(worker=OTHER_WORKER) == []

    def test_a_worker_that_goes_silent_loses_them_when_its_lease_runs_out(
        self, scene: Scene
    ) -> None:
        job = scene.running()
        scene.clock.advance(LEASE - SECOND)
        scene.beat(held(job))

        scene.clock.advance(LEASE - SECOND)
        assert scene.claimed(worker=OTHER_WORKER) == []
        scene.clock.advance(SECOND)
        assert scene.claimed(worker=OTHER_WORKER) == [job.id]

    def test_it_answers_only_what_is_lost(self, scene: Scene) -> None:
        scene.enqueue("a", "b")
        kept, ended = scene.claim().jobs
        scene.settle(ended)

        assert scene.beat(held(kept), held(ended)) == [Lost(held(ended), slot_only=False)]

    def test_a_claim_that_another_worker_took_is_lost(self, scene: Scene) -> None:
        job = scene.running()
        scene.lapse()
        scene.claim(worker=OTHER_WORKER)

        assert scene.beat(held(job)) == [Lost(held(job), slot_only=False)]

    def test_a_claim_that_it_does_not_name_is_let_go_of_once_its_time_is_up(
        self, scene: Scene
    ) -> None:
        """The answer to the claim was lost: nobody runs it."""
        job = scene.running()

        scene.beat(lease=DAY)
        assert scene.claimed(worker=OTHER_WORKER) == []
        scene.lapse()
        scene.beat(lease=DAY)
        assert scene.claimed(worker=OTHER_WORKER) == [job.id]

    def test_one_that_names_an_older_claim_does_not_vouch_for_the_newer(self, scene: Scene) -> None:
        older = scene.running()
        scene.settle(older, JobState.READY)
        newer = scene.take()
        scene.lapse()

        scene.beat(held(older), lease=DAY)

        assert scene.claimed(worker=OTHER_WORKER) == [newer.id]

    def test_workers_vouch_for_their_own_claims_only(self, scene: Scene) -> None:
        job = scene.running()
        scene.lapse()

        scene.beat(worker="worker-3", lease=DAY)

        assert scene.claimed(worker=OTHER_WORKER) == [job.id]


class TestLettingGo(Suite):
    def test_what_a_worker_that_says_farewell_still_holds_lapses_by_its_own_time(
        self, scene: Scene
    ) -> None:
        job = scene.running()
        scene.beat(held(job), lease=DAY)

        scene.driver.queue.farewell(WORKER)

        assert scene.claimed(worker=OTHER_WORKER) == []
        scene.lapse()
        assert scene.claimed(worker=OTHER_WORKER) == [job.id]

    def test_a_farewell_of_somebody_unknown_is_no_error(self, scene: Scene) -> None:
        scene.driver.queue.farewell("nobody")

    def test_a_disowned_claim_lapses_although_its_worker_lives_on(self, scene: Scene) -> None:
        scene.enqueue("a", "b")
        given_up, kept = scene.claim().jobs
        scene.beat(held(given_up), held(kept), lease=DAY)

        scene.driver.queue.disown(WORKER, [held(given_up)])

        assert scene.claimed(worker=OTHER_WORKER) == []
        scene.lapse()
        assert scene.claimed(worker=OTHER_WORKER) == [given_up.id]

    def test_its_body_writes_nothing_any_more(self, scene: Scene) -> None:
        job = scene.running()

        scene.driver.queue.disown(WORKER, [held(job)])

        assert not scene.settle(job)
        assert scene.put(job) is None
        assert scene.beat(held(job)) == [Lost(held(job), slot_only=False)]
