"""What an operator does to jobs, to their steps, and to queues."""

from __future__ import annotations

import pytest

from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import Requeue
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.core.selection import Look, Moved, Selection
from ultimate_jobs.core.states import LIVE, TERMINAL, WAITING, JobState
from ultimate_jobs.drivers.base import Operator, Part
from ultimate_jobs.testing.conformance.scene import DAY, HOUR, SECOND, Scene, Suite

UNDONE = "compensate:charge"


class OperatorSuite(Suite, needs={Part.OPERATOR}):
    """Tests of a driver that operators can look into."""

    def a_job(self, scene: Scene, state: JobState, key: str = "a") -> str:
        """Bring a job into a state; answer its key."""
        if state is JobState.DELAYED:
            scene.enqueue(key, delay=HOUR)
        elif state is JobState.READY:
            scene.enqueue(key)
        elif state is JobState.SUSPENDED:
            scene.sleep(scene.running(key), HOUR)
        elif state is JobState.RUNNING:
            scene.running(key)
        else:
            scene.ended(state, key)
        return key


class TestCancelling(OperatorSuite):
    @pytest.mark.parametrize("state", sorted(LIVE))
    def test_a_live_job_is_cancelled_and_frees_its_key(self, scene: Scene, state: JobState) -> None:
        key = self.a_job(scene, state)
        (job,) = scene.enqueue(key)

        assert scene.driver.operator.cancel(job.id, None)

        assert scene.state(job.id) is JobState.CANCELLED
        assert not scene.holds_its_key(key)

    @pytest.mark.parametrize("state", sorted(TERMINAL))
    def test_one_that_has_ended_stays_as_it_is(self, scene: Scene, state: JobState) -> None:
        job = scene.ended(state)

        assert not scene.driver.operator.cancel(job, "no")
        assert scene.state(job) is state

    def test_there_is_no_such_job(self, scene: Scene) -> None:
        assert not scene.driver.operator.cancel(new_id(), None)

    def test_its_run_may_write_nothing_any_more(self, scene: Scene) -> None:
        job = scene.running()
        scene.driver.operator.cancel(job.id, None)

        assert not scene.settle(job)
        assert scene.put(job) is None
        assert scene.state(job.id) is JobState.CANCELLED

    def test_the_reason_is_kept(self, scene: Scene) -> None:
        (job,) = scene.enqueue("a")
        scene.driver.operator.cancel(job.id, "Out of stock")

        found = scene.driver.operator.choose(
            Selection(ids=(job.id,), error_like="of STOCK"), Look(source="ids", limit=1, window=1)
        )
        assert len(found.places) == 1

    def test_of_a_cancel_and_an_ending_at_one_moment_one_wins(self, scene: Scene) -> None:
        job = scene.running()

        cancelled, ended = scene.at_once(
            lambda: scene.driver.operator.cancel(job.id, None), lambda: scene.settle(job)
        )

        assert cancelled is not ended
        assert scene.state(job.id) is (JobState.CANCELLED if cancelled else JobState.DONE)


class TestRequeueing(OperatorSuite):
    @pytest.mark.parametrize("state", ["failed", "dead", "cancelled"])
    def test_a_finished_job_is_due_now_with_no_attempt_used(self, scene: Scene, state: str) -> None:
        job = scene.ended(JobState(state))

        assert scene.driver.operator.requeue(job, None) == Requeue(
            moved=True, state=JobState(state)
        )

        again = scene.take()
        assert (again.id, again.attempt) == (job, 1)

    @pytest.mark.parametrize("state", sorted(LIVE))
    def test_a_live_one_stays_as_it_is(self, scene: Scene, state: JobState) -> None:
        (job,) = scene.enqueue(self.a_job(scene, state))

        assert scene.driver.operator.requeue(job.id, None) == Requeue(moved=False, state=state)
        assert scene.state(job.id) is state

    def test_there_is_no_such_job(self, scene: Scene) -> None:
        assert scene.driver.operator.requeue(new_id(), None) == Requeue(moved=False)

    def test_one_whose_key_another_holds_stays_and_names_that(self, scene: Scene) -> None:
        job = scene.ended(JobState.DEAD)
        (holder,) = scene.enqueue("a")

        answer = scene.driver.operator.requeue(job, None)

        assert answer == Requeue(moved=False, state=JobState.DEAD, holder=holder.id)
        assert scene.state(job) is JobState.DEAD

    def test_a_run_goes_on_behind_the_steps_it_has(self, scene: Scene) -> None:
        job = scene.running()
        scene.put(job)
        scene.settle(job, JobState.DEAD)
        scene.driver.operator.requeue(job.id, None)

        again = scene.take()

        assert (again.run_id, list(scene.steps(again))) == (job.run_id, ["charge"])

    def test_a_step_and_all_after_it_are_forgotten(self, scene: Scene) -> None:
        job = scene.running()
        for position, name in enumerate(["charge", "pack", "ship"]):
            scene.put(job, name, position=position)
        scene.settle(job, JobState.DEAD)

        answer = scene.driver.operator.requeue(job.id, "pack")

        assert (answer.moved, answer.step_known) == (True, True)
        assert list(scene.steps(scene.take())) == ["charge"]

    def test_a_step_that_is_unknown_keeps_the_job_where_it_is(self, scene: Scene) -> None:
        job = scene.ended(JobState.DEAD)

        answer = scene.driver.operator.requeue(job, "pack")

        assert answer == Requeue(moved=False, state=JobState.DEAD, step_known=False)

    def test_a_step_is_not_kept_whose_compensation_would_be_forgotten(self, scene: Scene) -> None:
        job = scene.running()
        for position, name in enumerate(["charge", "pack", UNDONE]):
            scene.put(job, name, position=position)
        scene.settle(job, JobState.DEAD)

        answer = scene.driver.operator.requeue(job.id, "pack")

        assert (answer.moved, answer.undone) == (False, True)
        assert list(scene.steps(job)) == ["charge", "pack", UNDONE]

    def test_of_two_at_one_moment_one_moves_it(self, scene: Scene) -> None:
        job = scene.ended(JobState.DEAD)

        answers = scene.at_once(*[lambda: scene.driver.operator.requeue(job, None)] * 3)

        assert sorted(answer.moved for answer in answers) == [False, False, True]

    def test_of_a_requeue_and_an_enqueue_of_its_key_at_one_moment_one_job_lives(
        self, scene: Scene
    ) -> None:
        job = scene.ended(JobState.DEAD)

        scene.at_once(lambda: scene.driver.operator.requeue(job, None), lambda: scene.enqueue("a"))

        assert len(scene.claimed()) == 1


class TestResolvingSteps(OperatorSuite):
    def in_doubt(self, scene: Scene, status: StepStatus = StepStatus.STARTED) -> None:
        self.job = scene.running()
        scene.put(self.job, status=status, output=None, error="who knows")
        scene.settle(self.job, JobState.DEAD)

    def resolve(self, scene: Scene, step: str = "charge", *, ran: bool = True) -> bool:
        return scene.driver.operator.resolve_step(
            self.job.id, step, ran=ran, output="7" if ran else None
        )

    @pytest.mark.parametrize("status", [StepStatus.STARTED, StepStatus.FAILED])
    def test_a_step_that_ran_is_done(self, scene: Scene, status: StepStatus) -> None:
        self.in_doubt(scene, status)

        assert self.resolve(scene)

        step = scene.steps(self.job)["charge"]
        assert (step.status, step.output, step.error) == (StepStatus.COMPLETED, "7", None)

    def test_one_that_did_not_run_is_forgotten(self, scene: Scene) -> None:
        self.in_doubt(scene)

        assert self.resolve(scene, ran=False)
        assert scene.steps(self.job) == {}

    def test_one_that_is_done_is_not_in_doubt(self, scene: Scene) -> None:
        self.in_doubt(scene)
        self.resolve(scene)

        assert not self.resolve(scene, ran=False)
        assert list(scene.steps(self.job)) == ["charge"]

    def test_one_that_is_unknown_is_not_either(self, scene: Scene) -> None:
        self.in_doubt(scene)

        assert not self.resolve(scene, "pack")

    def test_nothing_is_said_of_a_job_that_runs(self, scene: Scene) -> None:
        self.in_doubt(scene)
        scene.driver.operator.requeue(self.job.id, None)
        scene.claim()

        assert not self.resolve(scene)


class TestManyJobs(OperatorSuite):
    def operator(self, scene: Scene) -> Operator:
        return scene.driver.operator

    def test_those_that_can_be_cancelled_are(self, scene: Scene) -> None:
        jobs = [answer.id for answer in scene.enqueue(*"abc")]
        scene.driver.operator.cancel(jobs[0], None)

        moved = self.operator(scene).cancel_many([*jobs, new_id()], 10, "enough")

        assert sorted(moved.jobs) == sorted(jobs[1:])
        assert moved.remaining == 0
        assert {scene.state(job) for job in jobs} == {JobState.CANCELLED}

    def test_no_more_than_asked_for_and_how_many_are_left(self, scene: Scene) -> None:
        jobs = [answer.id for answer in scene.enqueue(*"abc")]

        moved = self.operator(scene).cancel_many(jobs, 2, None)

        assert (len(moved.jobs), moved.remaining) == (2, 1)
        assert self.operator(scene).cancel_many(jobs, 2, None).remaining == 0

    def test_finished_ones_are_requeued(self, scene: Scene) -> None:
        dead, done = scene.ended(JobState.DEAD, "a"), scene.ended(JobState.DEAD, "b")
        (live,) = scene.enqueue("c")

        moved = self.operator(scene).requeue_many([dead, done, live.id], 10)

        assert sorted(moved.jobs) == sorted([dead, done])
        assert sorted(scene.claimed()) == sorted([dead, done, live.id])

    def test_one_whose_key_is_held_is_left_and_not_counted(self, scene: Scene) -> None:
        held = scene.ended(JobState.DEAD, "a")
        scene.enqueue("a")

        assert self.operator(scene).requeue_many([held], 10) == Moved(jobs=(), remaining=0)

    def test_of_several_with_one_key_the_newest_is_requeued(self, scene: Scene) -> None:
        jobs = []
        for _ in range(3):
            jobs.append(scene.ended(JobState.DEAD, "a"))
            scene.clock.advance(SECOND)

        assert self.operator(scene).requeue_many(jobs, 10).jobs == (jobs[-1],)

    def test_those_that_wait_for_their_time_are_due_now(self, scene: Scene) -> None:
        delayed, ready = scene.enqueue("a", delay=DAY) + scene.enqueue("b")
        asleep = scene.running("c")
        scene.sleep(asleep, DAY)
        scene.driver.operator.cancel(ready.id, None)

        moved = self.operator(scene).promote_many([delayed.id, ready.id, asleep.id], 10)

        assert delayed.id in moved.jobs
        assert ready.id not in moved.jobs
        assert sorted(scene.claimed()) == sorted(moved.jobs)

    def test_one_that_is_due_is_not_promoted(self, scene: Scene) -> None:
        (job,) = scene.enqueue("a")

        assert self.operator(scene).promote_many([job.id], 10).jobs == ()

    @pytest.mark.parametrize("state", sorted({*WAITING, *TERMINAL}))
    def test_what_does_not_run_is_removed_with_its_steps(
        self, scene: Scene, state: JobState
    ) -> None:
        job = scene.running()
        scene.put(job)
        scene.settle(job, state, wait=HOUR if state is not JobState.READY else SECOND)

        assert self.operator(scene).remove_many([job.id], 10).jobs == (job.id,)

        assert scene.state(job.id) is None
        assert scene.steps(job) == {}
        assert not scene.holds_its_key("a")

    def test_what_runs_is_not(self, scene: Scene) -> None:
        job = scene.running()

        assert self.operator(scene).remove_many([job.id], 10) == Moved(jobs=(), remaining=0)
        assert scene.settle(job)

    def test_nothing_is_asked_for(self, scene: Scene) -> None:
        operator = self.operator(scene)

        for moved in (
            operator.requeue_many([], 10),
            operator.cancel_many([], 10, None),
            operator.promote_many([], 10),
            operator.remove_many([], 10),
        ):
            assert moved == Moved(jobs=(), remaining=0)


class TestPauses(OperatorSuite):
    @pytest.mark.parametrize("kind", ["queue", "task"])
    def test_a_pause_and_its_end_happen_once(self, scene: Scene, kind: str) -> None:
        operator = scene.driver.operator

        assert operator.pause(kind, "mail", by="someone", reason="because")
        assert not operator.pause(kind, "mail", by="another", reason=None)
        assert operator.resume(kind, "mail")
        assert not operator.resume(kind, "mail")

    def test_queues_and_tasks_of_one_name_are_paused_by_themselves(self, scene: Scene) -> None:
        operator = scene.driver.operator
        operator.pause("task", "mail", by=None, reason=None)

        assert operator.pause("queue", "mail", by=None, reason=None)
        assert operator.resume("task", "mail")
        assert not operator.pause("queue", "mail", by=None, reason=None)
