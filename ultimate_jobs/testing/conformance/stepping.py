"""What runs store of themselves, and what a later claim finds of it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from ultimate_jobs.core.records import ClaimedJob
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import Part
from ultimate_jobs.testing.conformance.enqueueing import VALUES, exactly
from ultimate_jobs.testing.conformance.scene import (
    DAY,
    HOUR,
    OTHER_WORKER,
    PATIENCE,
    SECOND,
    Scene,
    Suite,
)


class TestSteps(Suite):
    def test_a_new_run_has_none(self, scene: Scene) -> None:
        assert scene.steps(scene.running()) == {}

    def test_a_step_is_read_as_it_was_written(self, scene: Scene) -> None:
        job = scene.running()

        assert scene.put(job, "charge", position=2, output='{"id": 7}', undoable=True)

        step = scene.steps(job)["charge"]
        assert (step.name, step.position, step.status) == ("charge", 2, StepStatus.COMPLETED)
        assert (step.attempts, step.undoable, step.error) == (1, True, None)
        assert json.loads(step.output or "") == {"id": 7}

    @pytest.mark.parametrize("text", VALUES)
    def test_no_value_of_an_output_changes_on_the_way(self, scene: Scene, text: str) -> None:
        job = scene.running()
        scene.put(job, output=text)

        assert exactly(scene.steps(job)["charge"].output or "") == exactly(text)

    def test_a_step_without_an_output_has_none(self, scene: Scene) -> None:
        job = scene.running()
        scene.put(job, status=StepStatus.STARTED, output=None)

        assert scene.steps(job)["charge"].output is None

    def test_they_are_read_in_the_order_in_which_the_run_reached_them(self, scene: Scene) -> None:
        job = scene.running()
        for position, name in [(2, "a"), (0, "c"), (1, "b")]:
            scene.put(job, name, position=position)

        assert list(scene.steps(job)) == ["c", "b", "a"]

    def test_the_next_claim_of_the_run_finds_them(self, scene: Scene) -> None:
        job = scene.running()
        scene.put(job)
        scene.settle(job, JobState.READY)

        assert list(scene.steps(scene.take())) == ["charge"]

    def test_no_other_run_does(self, scene: Scene) -> None:
        scene.put(scene.running("a"))

        assert scene.steps(scene.running("b")) == {}

    def test_a_step_that_is_done_never_changes(self, scene: Scene) -> None:
        job = scene.running()
        scene.put(job, output="1")

        assert scene.put(job, output="2") is None

        assert scene.steps(job)["charge"].output == "1"

    @pytest.mark.parametrize("status", [StepStatus.STARTED, StepStatus.FAILED])
    def test_one_that_is_not_done_is_written_again(self, scene: Scene, status: StepStatus) -> None:
        job = scene.running()
        scene.put(job, status=status, output=None, error="ValueError: no", attempts=1)

        assert scene.put(job, output="2", attempts=2)

        step = scene.steps(job)["charge"]
        assert (step.status, step.output, step.attempts, step.error) == (
            StepStatus.COMPLETED,
            "2",
            2,
            None,
        )

    def test_an_error_is_kept(self, scene: Scene) -> None:
        job = scene.running()
        scene.put(job, status=StepStatus.FAILED, output=None, error="ValueError: no", attempts=3)

        step = scene.steps(job)["charge"]
        assert (step.status, step.error, step.attempts) == (
            StepStatus.FAILED,
            "ValueError: no",
            3,
        )

    def test_of_two_first_writes_at_one_moment_one_stands(self, scene: Scene) -> None:
        job = scene.running()

        written = scene.at_once(
            lambda: scene.put(job, output="1"), lambda: scene.put(job, output="2")
        )

        assert [answer is None for answer in written].count(True) == 1
        stored = scene.steps(job)["charge"].output
        assert stored == ("1" if written[0] is not None else "2")

    def test_what_is_no_json_is_refused(self, scene: Scene) -> None:
        job = scene.running()

        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the store says
            scene.put(job, output="{")

        assert scene.steps(job) == {}


class TestSleeps(Suite):
    def asleep(self, scene: Scene, span: timedelta = HOUR) -> ClaimedJob:
        job = scene.running()
        assert scene.sleep(job, span)
        return job

    def test_the_step_at_which_a_run_sleeps_is_written_with_its_suspension(
        self, scene: Scene
    ) -> None:
        self.asleep(scene)
        scene.clock.advance(HOUR)

        step = scene.steps(scene.take())["nap"]

        assert (step.position, step.due) == (9, True)
        assert step.wake_at == scene.clock()

    def test_a_sleep_that_is_over_is_done_once_its_run_is_claimed(self, scene: Scene) -> None:
        self.asleep(scene)
        scene.clock.advance(HOUR)
        job = scene.take()

        assert scene.steps(job)["nap"].status is StepStatus.COMPLETED
        assert scene.steps(job)["nap"].status is StepStatus.COMPLETED

    def test_an_older_claim_does_not_end_it(self, scene: Scene) -> None:
        job = self.asleep(scene)
        scene.clock.advance(HOUR)

        step = scene.steps(job)["nap"]

        assert (step.status, step.due) == (StepStatus.SLEEPING, True)

    def test_a_sleep_goes_on_when_its_run_is_claimed_before(self, scene: Scene) -> None:
        job = scene.running()
        scene.sleep(job, DAY)
        scene.clock.advance(DAY - SECOND)

        step = scene.steps(job)["nap"]

        assert (step.status, step.due) == (StepStatus.SLEEPING, False)

    def test_a_sleep_that_began_ends_when_it_was_to_end_first(self, scene: Scene) -> None:
        self.asleep(scene)
        scene.clock.advance(HOUR)
        again = scene.take()
        scene.sleep(again, DAY)
        scene.clock.advance(DAY)

        step = scene.steps(scene.take())["nap"]

        assert step.wake_at == scene.clock() - DAY

    def test_until_an_instant(self, scene: Scene) -> None:
        job = scene.running()
        until = scene.clock() + HOUR
        scene.settle(job, JobState.SUSPENDED, counted=False, until=until)

        scene.clock.advance(HOUR)

        assert scene.claimed() == [job.id]


class TestTransactions(Suite, needs={Part.TRANSACTIONS}):
    def test_work_is_answered_and_committed(self, scene: Scene) -> None:
        job = scene.running()

        assert scene.driver.steps.transact(lambda: scene.put(job, output="1"))

        assert scene.steps(job)["charge"].output == "1"

    def test_what_fails_leaves_no_step(self, scene: Scene) -> None:
        job = scene.running()

        scene.undo(lambda: scene.put(job))

        assert scene.steps(job) == {}

    def test_nobody_sees_a_step_before_the_commit(self, scene: Scene) -> None:
        job = scene.running()

        with scene.held_open(lambda: scene.put(job)):
            assert scene.steps(job) == {}

        assert list(scene.steps(job)) == ["charge"]

    def test_a_claim_stands_until_the_step_in_it_is_committed(self, scene: Scene) -> None:
        """Otherwise a step could be stored for a run that somebody has taken over."""
        job = scene.running()
        scene.lapse()

        with scene.held_open(lambda: scene.put(job)):
            other = scene.elsewhere(lambda: scene.claimed(worker=OTHER_WORKER))
            assert other.result(PATIENCE) == []

        assert scene.claimed(worker=OTHER_WORKER) == [job.id]

    def test_the_blocks_that_are_open_are_counted(self, scene: Scene) -> None:
        steps = scene.driver.steps
        depths = [steps.transaction_depth()]

        def outer() -> None:
            depths.append(steps.transaction_depth())
            steps.transact(lambda: depths.append(steps.transaction_depth()))

        steps.transact(outer)

        assert [depth - depths[0] for depth in depths] == [0, 1, 2]
        assert steps.transaction_depth() == depths[0]
