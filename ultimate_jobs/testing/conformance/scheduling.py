"""Which scheduler leads, how far tasks have come, and what a fire queues."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from ultimate_jobs.core.dispatch import ArmedTask, Fired, TaskFire, Volley
from ultimate_jobs.core.records import Batch
from ultimate_jobs.drivers.base import FireRefused, Part
from ultimate_jobs.testing.conformance.scene import HOUR, LEASE, SECOND, Scene, Suite

TASK = "conformance.task"
ONE, OTHER = "scheduler-1", "scheduler-2"
MOVED = Fired(moved=True)
LEFT = Fired(moved=False)


class ScheduleSuite(Suite, needs={Part.SCHEDULE}):
    """Tests of a driver that has a schedule."""

    def lead(self, scene: Scene, holder: str = ONE) -> bool:
        return scene.driver.schedule.lead(holder, LEASE).granted

    def watermark(self, scene: Scene, task: str = TASK, rule: str = "hourly") -> datetime:
        """Answer how far a task has come; one that is new starts now."""
        armed = ArmedTask(task, rule, scene.clock())
        return scene.driver.schedule.watermarks([armed])[task]

    def jobs(self, scene: Scene, *keys: str, **options: Any) -> Batch:
        """Build the jobs of an occurrence, which are for its instant."""
        return scene.batch(*keys, run_at=scene.clock(), **options)

    def due(self, scene: Scene, *batches: Batch, task: str = TASK, **words: Any) -> TaskFire:
        """Build a fire of what a task has due by now."""
        seen = self.watermark(scene, task)
        scene.clock.advance(SECOND)
        now = scene.clock()
        fields = {"seen": seen, "watermark": now, "occurrence": now, **words}
        return TaskFire(task=task, batches=batches, **fields)

    def fire(self, scene: Scene, *fires: TaskFire, holder: str = ONE) -> Volley:
        return scene.driver.schedule.fire(holder, LEASE, fires)


class TestLeading(ScheduleSuite):
    def test_one_leads_and_the_others_do_not(self, scene: Scene) -> None:
        assert self.lead(scene, ONE)
        assert not self.lead(scene, OTHER)

    def test_it_learns_what_time_it_is(self, scene: Scene) -> None:
        assert scene.driver.schedule.lead(ONE, LEASE).now == scene.clock()
        assert scene.driver.schedule.lead(OTHER, LEASE).now == scene.clock()

    def test_it_goes_on_leading_while_it_says_so(self, scene: Scene) -> None:
        for _ in range(3):
            assert self.lead(scene, ONE)
            scene.clock.advance(LEASE - SECOND)

        assert not self.lead(scene, OTHER)

    def test_another_takes_over_when_its_lease_has_run_out(self, scene: Scene) -> None:
        self.lead(scene, ONE)

        scene.clock.advance(LEASE)

        assert self.lead(scene, OTHER)
        assert not self.lead(scene, ONE)

    def test_another_takes_over_at_once_when_it_gives_the_lease_up(self, scene: Scene) -> None:
        self.lead(scene, ONE)
        scene.driver.schedule.release(ONE)

        assert self.lead(scene, OTHER)

    def test_nobody_gives_up_the_lease_of_another(self, scene: Scene) -> None:
        self.lead(scene, ONE)
        scene.driver.schedule.release(OTHER)

        assert not self.lead(scene, OTHER)

    def test_of_many_at_one_moment_one_leads(self, scene: Scene) -> None:
        granted = scene.at_once(*[lambda name=name: self.lead(scene, name) for name in "abcd"])

        assert sorted(granted) == [False, False, False, True]


class TestWatermarks(ScheduleSuite):
    def test_a_new_task_starts_where_it_says(self, scene: Scene) -> None:
        assert self.watermark(scene) == scene.clock()

    def test_one_that_is_known_stays_where_it_is(self, scene: Scene) -> None:
        start = self.watermark(scene)
        scene.clock.advance(HOUR)

        assert self.watermark(scene) == start

    def test_a_new_rule_passes_over_what_lies_before(self, scene: Scene) -> None:
        self.watermark(scene)
        scene.clock.advance(HOUR)

        assert self.watermark(scene, rule="daily") == scene.clock()

    def test_a_watermark_never_goes_back(self, scene: Scene) -> None:
        start = self.watermark(scene)
        scene.clock.advance(-HOUR)

        assert self.watermark(scene, rule="daily") == start

    def test_each_task_has_one(self, scene: Scene) -> None:
        now = scene.clock()
        tasks = [ArmedTask("a", "r", now), ArmedTask("b", "r", now + HOUR)]

        assert scene.driver.schedule.watermarks(tasks) == {"a": now, "b": now + HOUR}


class TestFires(ScheduleSuite):
    def test_a_fire_moves_the_watermark_and_queues_the_jobs(self, scene: Scene) -> None:
        self.lead(scene)
        batch = self.jobs(scene, "a", "b", text='{"n": 1}')

        volley = self.fire(scene, self.due(scene, batch))

        assert volley == Volley(leading=True, now=scene.clock(), fired={TASK: MOVED})
        assert self.watermark(scene) == scene.clock()
        assert sorted(scene.claimed()) == sorted(job.id for job in batch.jobs)

    def test_each_occurrence_is_fired_once(self, scene: Scene) -> None:
        self.lead(scene)
        fire = self.due(scene, self.jobs(scene, "a"))
        self.fire(scene, fire)
        scene.settle(scene.take())

        assert self.fire(scene, fire).fired == {TASK: LEFT}
        assert scene.claimed() == []

    def test_a_watermark_only_goes_forward(self, scene: Scene) -> None:
        self.lead(scene)
        fire = self.due(scene, self.jobs(scene, "a"), watermark=self.watermark(scene))

        assert self.fire(scene, fire).fired == {TASK: LEFT}
        assert scene.claimed() == []

    def test_a_task_that_nobody_has_started_is_not_fired(self, scene: Scene) -> None:
        self.lead(scene)
        now = scene.clock()
        fire = TaskFire("unknown", now, now + HOUR, None, [self.jobs(scene, "a")])

        assert self.fire(scene, fire).fired == {"unknown": LEFT}
        assert scene.claimed() == []

    def test_whoever_does_not_lead_fires_nothing(self, scene: Scene) -> None:
        self.lead(scene, OTHER)
        fire = self.due(scene, self.jobs(scene, "a"))

        volley = self.fire(scene, fire, holder=ONE)

        assert (volley.leading, volley.fired) == (False, {TASK: LEFT})
        assert scene.claimed() == []
        assert self.fire(scene, fire, holder=OTHER).fired == {TASK: MOVED}

    def test_a_fire_renews_the_lease(self, scene: Scene) -> None:
        self.lead(scene)
        scene.clock.advance(LEASE - 2 * SECOND)
        self.fire(scene, self.due(scene))
        scene.clock.advance(LEASE - SECOND)

        assert not self.lead(scene, OTHER)

    def test_many_tasks_are_fired_at_once_each_by_itself(self, scene: Scene) -> None:
        self.lead(scene)
        good = self.due(scene, self.jobs(scene, "a"), task="good")
        stale = self.due(scene, self.jobs(scene, "b"), task="stale", seen=scene.clock() - HOUR)

        assert self.fire(scene, good, stale).fired == {"good": MOVED, "stale": LEFT}
        assert scene.claimed() == [good.batches[0].jobs[0].id]

    def test_a_job_whose_key_is_held_is_left_out_and_the_others_are_queued(
        self, scene: Scene
    ) -> None:
        self.lead(scene)
        (held,) = scene.enqueue("a")
        batch = self.jobs(scene, "a", "b")

        assert self.fire(scene, self.due(scene, batch)).fired == {TASK: MOVED}
        assert sorted(scene.claimed()) == sorted([held.id, batch.jobs[1].id])

    def test_a_fire_without_jobs_moves_the_watermark(self, scene: Scene) -> None:
        self.lead(scene)

        assert self.fire(scene, self.due(scene, occurrence=None)).fired == {TASK: MOVED}
        assert self.watermark(scene) == scene.clock()

    def test_a_job_that_is_refused_refuses_all(self, scene: Scene) -> None:
        self.lead(scene)
        before = self.watermark(scene)
        bad = self.due(scene, self.jobs(scene, "a", max_attempts=0))
        good = self.due(scene, self.jobs(scene, "b"), task="good")

        with pytest.raises(FireRefused):
            self.fire(scene, good, bad)

        assert self.watermark(scene) == before
        assert scene.claimed() == []

    def test_of_two_fires_at_one_moment_one_moves_the_watermark(self, scene: Scene) -> None:
        self.lead(scene)
        due = [self.due(scene, self.jobs(scene, key)) for key in "ab"]

        volleys = scene.at_once(*[lambda fire=fire: self.fire(scene, fire) for fire in due])

        assert sorted(volley.fired[TASK].moved for volley in volleys) == [False, True]
        assert len(scene.claimed()) == 1


class TestPausedTasks(ScheduleSuite, needs={Part.OPERATOR}):
    def test_a_paused_task_is_not_fired_and_keeps_its_watermark(self, scene: Scene) -> None:
        self.lead(scene)
        before = self.watermark(scene)
        fire = self.due(scene, self.jobs(scene, "a"))
        scene.driver.operator.pause("task", TASK, by=None, reason=None)

        assert self.fire(scene, fire).fired == {TASK: Fired(moved=False, paused=True)}
        assert self.watermark(scene) == before
        scene.driver.operator.resume("task", TASK)
        assert self.fire(scene, fire).fired == {TASK: MOVED}

    def test_whoever_asks_for_the_lease_is_told_what_is_paused(self, scene: Scene) -> None:
        scene.driver.operator.pause("task", TASK, by=None, reason=None)
        scene.driver.operator.pause("queue", "mail", by=None, reason=None)

        assert scene.driver.schedule.lead(ONE, LEASE).paused == {TASK}
