"""How attempts end: what the row becomes, behind which fence, and what is counted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ultimate_jobs.core.records import ClaimedJob, HeldClaim, Lost, Tally
from ultimate_jobs.core.states import TERMINAL, JobState
from ultimate_jobs.drivers.base import UNSURE, ClaimGone, Part
from ultimate_jobs.testing.conformance.scene import (
    DAY,
    HOUR,
    MINUTE,
    OTHER_WORKER,
    SECOND,
    WORKER,
    Scene,
    Suite,
)


class TestSettle(Suite):
    @pytest.mark.parametrize("state", sorted(TERMINAL))
    def test_a_job_that_has_ended_is_claimed_no_more_and_frees_its_key(
        self, scene: Scene, state: JobState
    ) -> None:
        job = scene.running()

        assert scene.settle(job, state)

        scene.clock.advance(DAY)
        assert scene.claimed() == []
        assert not scene.holds_its_key("a")

    def test_a_retry_waits_by_the_clock_and_tells_the_next_attempt_why(self, scene: Scene) -> None:
        job = scene.running()
        scene.settle(job, JobState.READY, wait=HOUR, error="ValueError: no")

        scene.clock.advance(HOUR - SECOND)
        assert scene.claimed() == []
        scene.clock.advance(SECOND)
        again = scene.take()

        assert (again.id, again.attempt, again.last_error) == (job.id, 2, "ValueError: no")

    def test_an_instant_goes_before_a_wait(self, scene: Scene) -> None:
        job = scene.running()
        scene.settle(job, JobState.READY, wait=DAY, until=scene.clock() + HOUR)

        scene.clock.advance(HOUR)

        assert scene.claimed() == [job.id]

    def test_what_is_not_counted_gives_the_attempt_back_and_keeps_the_last_error(
        self, scene: Scene
    ) -> None:
        scene.settle(scene.running(), JobState.READY, error="ValueError: no")
        scene.settle(scene.take(), JobState.READY, counted=False)

        again = scene.take()

        assert (again.attempt, again.last_error) == (2, "ValueError: no")

    def test_a_row_that_stays_in_place_keeps_its_time(self, scene: Scene) -> None:
        first, second = scene.enqueue("a", run_at=scene.clock() - HOUR) + scene.enqueue("b")
        job = scene.take(room=1)
        scene.clock.advance(HOUR)
        scene.settle(job, JobState.READY, counted=False, in_place=True)

        assert scene.claimed() == [first.id, second.id]

    def test_it_may_leave_an_error_of_its_own(self, scene: Scene) -> None:
        scene.settle(scene.running(), JobState.READY, counted=False, error="limited")

        assert scene.take().last_error == "limited"

    def test_a_counted_ending_without_an_error_clears_the_last(self, scene: Scene) -> None:
        scene.settle(scene.running(), JobState.READY, error="ValueError: no")
        scene.settle(scene.take(), JobState.READY)

        assert scene.take().last_error is None

    def test_a_run_that_looks_again_is_due_in_a_second_first(self, scene: Scene) -> None:
        job = scene.running()
        scene.settle(job, JobState.SUSPENDED, counted=False, wait=DAY, poll=HOUR)

        assert scene.claimed() == []
        scene.clock.advance(UNSURE)
        assert scene.claimed() == [job.id]

    def test_a_group_of_endings_is_written_as_if_each_came_alone(self, scene: Scene) -> None:
        scene.enqueue("a", "b", "c")
        jobs = scene.claim().jobs
        gone = scene.ending(jobs[2], claim=jobs[2].claim + 1)

        stood = scene.driver.queue.settle(
            WORKER, [scene.ending(jobs[0]), scene.ending(jobs[1], JobState.READY), gone]
        )

        assert stood == {(job.id, job.claim) for job in jobs[:2]}
        assert scene.claimed() == [jobs[1].id]

    def test_no_ending_is_no_question(self, scene: Scene) -> None:
        assert scene.driver.queue.settle(WORKER, []) == set()


class TestFences(Suite):
    """Each write of a run names its claim, and does nothing once that no longer stands."""

    @pytest.fixture(params=["older claim", "other worker", "run that ended"])
    def stale(self, request: pytest.FixtureRequest, scene: Scene) -> Stale:
        job = scene.running(max_attempts=9)
        if request.param == "other worker":
            return Stale(job, OTHER_WORKER, job)
        if request.param == "run that ended":
            scene.settle(job)
            return Stale(job, WORKER, None)
        scene.settle(job, JobState.READY)
        return Stale(job, WORKER, scene.take())

    def check_that_nothing_changed(self, scene: Scene, stale: Stale) -> None:
        if stale.standing is None:
            assert not scene.holds_its_key("a")
            return
        assert scene.claimed(worker="worker-3") == []
        assert scene.steps(stale.standing) == {}
        assert scene.settle(stale.standing, JobState.READY)
        assert scene.take().attempt == stale.standing.attempt + 1

    def test_no_ending_is_written(self, scene: Scene, stale: Stale) -> None:
        assert not scene.settle(stale.job, worker=stale.worker)

        self.check_that_nothing_changed(scene, stale)

    def test_no_suspension_is_written(self, scene: Scene, stale: Stale) -> None:
        assert not scene.sleep(stale.job, HOUR, worker=stale.worker)

        self.check_that_nothing_changed(scene, stale)

    def test_no_step_is_written(self, scene: Scene, stale: Stale) -> None:
        assert scene.put(scene.fence(stale.job, worker=stale.worker)) is None

        self.check_that_nothing_changed(scene, stale)

    def test_no_wait_is_ended(self, scene: Scene, stale: Stale) -> None:
        with pytest.raises(ClaimGone):
            scene.driver.steps.settle_wait(scene.fence(stale.job, worker=stale.worker), "wait")

        self.check_that_nothing_changed(scene, stale)

    def test_no_progress_is_written(self, scene: Scene, stale: Stale) -> None:
        scene.driver.queue.record_progress(stale.worker, [(stale.held, '{"done": 1}')])

        self.check_that_nothing_changed(scene, stale)

    def test_a_sign_of_life_says_that_it_is_lost(self, scene: Scene, stale: Stale) -> None:
        assert scene.beat(stale.held, worker=stale.worker) == [Lost(stale.held, slot_only=False)]

        self.check_that_nothing_changed(scene, stale)

    def test_nothing_is_let_go_of(self, scene: Scene, stale: Stale) -> None:
        scene.driver.queue.disown(stale.worker, [stale.held])
        scene.beat(lease=DAY)
        scene.lapse()

        self.check_that_nothing_changed(scene, stale)

    def test_of_two_endings_at_one_moment_one_stands(self, scene: Scene) -> None:
        job = scene.running()

        stood = scene.at_once(*[lambda: scene.settle(job)] * 3)

        assert sorted(stood) == [False, False, True]


@dataclass(frozen=True, slots=True)
class Stale:
    """A claim that no longer stands, the worker that believes in it, and the claim that does stand."""

    job: ClaimedJob
    worker: str
    standing: ClaimedJob | None

    @property
    def held(self) -> HeldClaim:
        return HeldClaim(self.job.id, self.job.claim)


class TestCounters(Suite, needs={Part.RETENTION}):
    """Endings are counted by the minute and the job, in the statement that writes them."""

    def counted(self, scene: Scene, span: int = 1) -> int:
        """Answer how many counters there are, which deletes them."""
        later = scene.clock() + 2 * DAY
        return scene.driver.retention.delete_counters(span, later, 100)

    @pytest.mark.parametrize("state", ["done", "ready", "failed", "dead"])
    def test_an_ending_that_says_so_is_counted(self, scene: Scene, state: str) -> None:
        scene.settle(scene.running(), JobState(state))

        assert self.counted(scene) == 1

    def test_one_that_does_not_is_not(self, scene: Scene) -> None:
        scene.settle(scene.running(), JobState.READY, tally=Tally(), counted=False)

        assert self.counted(scene) == 0

    def test_an_ending_that_was_not_written_is_not(self, scene: Scene) -> None:
        job = scene.running()
        scene.settle(job, claim=job.claim + 1)

        assert self.counted(scene) == 0

    def test_endings_of_a_minute_and_a_job_are_one_counter(self, scene: Scene) -> None:
        for key in "abc":
            scene.settle(scene.running(key))
        scene.settle(scene.running("d", name="conformance.other"))
        scene.clock.advance(MINUTE)
        scene.settle(scene.running("e"))

        assert self.counted(scene) == 3

    def test_a_burial_is_counted(self, scene: Scene) -> None:
        scene.running(max_attempts=1)
        scene.lapse()
        scene.claim()

        assert self.counted(scene) == 1

    def test_counters_are_folded_into_longer_ones_once(self, scene: Scene) -> None:
        for key in "abc":
            scene.settle(scene.running(key))
            scene.clock.advance(MINUTE)
        fold = scene.driver.retention.fold_counters
        later = scene.clock() + HOUR

        assert fold(1, 60, later, 100) == 3
        assert fold(1, 60, later, 100) == 0

        assert self.counted(scene) == 0
        assert self.counted(scene, 60) == 1

    def test_only_buckets_that_are_whole_are_folded(self, scene: Scene) -> None:
        scene.settle(scene.running())
        fold = scene.driver.retention.fold_counters
        end_of_hour = scene.clock().replace(minute=0, second=0, microsecond=0) + HOUR

        assert fold(1, 60, end_of_hour - SECOND, 100) == 0
        assert fold(1, 60, end_of_hour, 100) == 1

    def test_folding_at_one_moment_loses_nothing_and_takes_no_more_than_asked_for(
        self, scene: Scene
    ) -> None:
        for key in "abcdef":
            scene.settle(scene.running(key))
            scene.clock.advance(MINUTE)
        later = scene.clock() + HOUR

        folded = scene.at_once(*[lambda: scene.driver.retention.fold_counters(1, 60, later, 2)] * 3)

        assert all(count <= 2 for count in folded)
        assert sum(folded) + self.counted(scene) == 6


class TestStates(Suite, needs={Part.OPERATOR}):
    """What the moves above leave behind, as an operator sees it."""

    def test_a_new_job_is_ready_or_delayed(self, scene: Scene) -> None:
        (now,), (later,) = scene.enqueue("a"), scene.enqueue("b", delay=HOUR)

        assert scene.state(now.id) is JobState.READY
        assert scene.state(later.id) is JobState.DELAYED

    def test_a_claimed_job_runs(self, scene: Scene) -> None:
        assert scene.state(scene.running().id) is JobState.RUNNING

    @pytest.mark.parametrize("state", sorted({*TERMINAL, JobState.READY, JobState.SUSPENDED}))
    def test_an_ending_names_the_state(self, scene: Scene, state: JobState) -> None:
        assert scene.state(scene.ended(state)) is state

    @pytest.mark.parametrize(("undead", "state"), [((), "dead"), (("conformance.job",), "failed")])
    def test_a_burial_ends_the_job(self, scene: Scene, undead: tuple[str, ...], state: str) -> None:
        job = scene.running(max_attempts=1)
        scene.lapse()
        scene.claim(undead=undead)

        assert scene.state(job.id) == state

    def test_a_relayed_job_is_ready_or_delayed(self, scene: Scene) -> None:
        (now,), (later,) = scene.stage("a"), scene.stage("b", delay=HOUR)
        scene.relay()

        assert scene.state(now.id) is JobState.READY
        assert scene.state(later.id) is JobState.DELAYED
