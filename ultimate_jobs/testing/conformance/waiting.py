"""Events, and the runs that wait for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import ClaimedJob, NewEvent, WaitEnd
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.drivers.base import UNSURE, Part
from ultimate_jobs.testing.conformance.scene import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Scene,
    Suite,
)

EVENT = "order.shipped"


def publish(
    scene: Scene,
    payload: str = "1",
    *,
    key: str | None = None,
    ttl: timedelta = DAY,
    name: str = EVENT,
) -> int:
    """Publish an event; answer how many runs it made due."""
    event = NewEvent(id=new_id(), name=name, payload=payload, correlation_key=key, ttl=ttl)
    return scene.driver.events.publish(event)


def waiting(scene: Scene, key: str = "a", **words: Any) -> ClaimedJob:
    """Answer a run that waits, and has been looked at once more."""
    job = scene.running(key)
    assert scene.wait_for(job, EVENT, **words)
    assert scene.driver.steps.look_again([(job.id, HOUR)]) == []
    return job


def ended(scene: Scene, job: ClaimedJob) -> WaitEnd | None:
    """End a wait as a run does that goes on."""
    return scene.driver.steps.settle_wait(scene.fence(job), "wait")


def payload(end: WaitEnd | None) -> Any:
    """Read what a wait ended with."""
    if end is None or end.output is None:
        return end
    return json.loads(end.output)["payload"]


class TestEvents(Suite, needs={Part.EVENTS}):
    def test_an_event_makes_the_run_due_that_waits_for_it(self, scene: Scene) -> None:
        job = waiting(scene)
        assert scene.claimed() == []

        assert publish(scene, '{"n": 1.50}') == 1

        again = scene.take()
        assert (again.id, again.attempt) == (job.id, 1)
        assert payload(ended(scene, again)) == {"n": 1.5}

    def test_all_that_wait_for_it(self, scene: Scene) -> None:
        jobs = [waiting(scene, key) for key in "abc"]

        assert publish(scene) == 3

        assert sorted(scene.claimed()) == sorted(job.id for job in jobs)

    def test_nobody_waits_for_another(self, scene: Scene) -> None:
        waiting(scene)

        assert publish(scene, name="order.lost") == 0

        assert scene.claimed() == []

    @pytest.mark.parametrize(
        ("match", "key", "woken"),
        [(None, None, 1), (None, "o-1", 1), ("o-1", "o-1", 1), ("o-1", "o-2", 0), ("o-1", None, 0)],
    )
    def test_a_wait_that_names_a_key_is_for_events_of_that_key(
        self, scene: Scene, match: str | None, key: str | None, woken: int
    ) -> None:
        job = waiting(scene, match=match)

        assert publish(scene, key=key) == woken

        assert scene.claimed() == [job.id] * woken

    def test_the_first_of_several_is_the_one(self, scene: Scene) -> None:
        waiting(scene)
        for number in "123":
            publish(scene, number)
            scene.clock.advance(SECOND)

        assert payload(ended(scene, scene.take())) == 1

    def test_every_event_counts_the_runs_that_have_not_gone_on_yet(self, scene: Scene) -> None:
        waiting(scene)

        assert (publish(scene), publish(scene)) == (1, 1)

        scene.take()
        assert publish(scene) == 0

    def test_one_from_before_the_wait_is_not_meant(self, scene: Scene) -> None:
        publish(scene)
        job = waiting(scene)
        scene.clock.advance(HOUR)

        again = scene.take()

        assert again.id == job.id
        assert ended(scene, again) is None

    def test_one_that_has_expired_is_not_meant(self, scene: Scene) -> None:
        waiting(scene)
        publish(scene, ttl=MINUTE)
        scene.clock.advance(MINUTE)

        assert ended(scene, scene.take()) is None

    def test_a_run_that_waits_no_longer_is_not_due_because_of_it(self, scene: Scene) -> None:
        waiting(scene)
        publish(scene)
        again = scene.take()
        ended(scene, again)
        scene.sleep(again, DAY)

        assert publish(scene) == 0
        assert scene.claimed() == []


class TestWaits(Suite, needs={Part.EVENTS}):
    def test_a_wait_goes_on_while_nothing_has_come(self, scene: Scene) -> None:
        waiting(scene)
        scene.clock.advance(HOUR)
        job = scene.take()

        assert ended(scene, job) is None
        assert scene.steps(job)["wait"].status is StepStatus.WAITING

    def test_it_ends_without_an_event_when_its_time_is_over(self, scene: Scene) -> None:
        waiting(scene, timeout=HOUR)
        scene.clock.advance(HOUR)

        assert ended(scene, scene.take()) == WaitEnd(None)

    def test_an_event_in_time_wins_over_the_end_of_its_time(self, scene: Scene) -> None:
        waiting(scene, timeout=HOUR)
        publish(scene)
        scene.clock.advance(2 * HOUR)

        assert payload(ended(scene, scene.take())) == 1

    def test_it_ends_once_and_keeps_how(self, scene: Scene) -> None:
        waiting(scene)
        publish(scene)
        job = scene.take()
        end = ended(scene, job)

        assert ended(scene, job) is None

        step = scene.steps(job)["wait"]
        assert step.status is StepStatus.COMPLETED
        assert end is not None
        assert json.loads(step.output or "") == json.loads(end.output or "")

    def test_it_begins_where_the_last_step_before_it_was_stored(self, scene: Scene) -> None:
        """Whoever reacts to a step comes after it, however long the suspension takes."""
        job = scene.running()
        scene.put(job)
        publish(scene)
        scene.wait_for(job, EVENT)

        assert scene.driver.steps.look_again([(job.id, HOUR)]) == [job.id]

        again = scene.take()
        assert payload(ended(scene, again)) == 1

    def test_it_begins_before_the_function_of_that_step_was_called(self, scene: Scene) -> None:
        job = scene.running()
        _, since = scene.driver.steps.load(scene.fence(job))
        publish(scene)
        scene.put(job, since=since)
        scene.wait_for(job, EVENT)

        assert scene.driver.steps.look_again([(job.id, HOUR)]) == [job.id]

    def test_a_second_step_begins_where_the_first_was_stored(self, scene: Scene) -> None:
        job = scene.running()
        publish(scene, "1")
        since = scene.put(job)
        publish(scene, "2")
        scene.put(job, "pack", position=1, since=since)
        scene.wait_for(job, EVENT)
        scene.driver.steps.look_again([(job.id, HOUR)])

        assert payload(ended(scene, scene.take())) == 2


class TestSecondLooks(Suite, needs={Part.EVENTS}):
    def test_until_it_is_taken_a_run_falls_due_in_a_second(self, scene: Scene) -> None:
        job = scene.running()
        scene.wait_for(job, EVENT)

        assert scene.claimed() == []
        scene.clock.advance(UNSURE)
        assert scene.claimed() == [job.id]

    def test_then_it_rests_for_its_poll(self, scene: Scene) -> None:
        job = waiting(scene)

        scene.clock.advance(HOUR - SECOND)
        assert scene.claimed() == []
        scene.clock.advance(SECOND)
        assert scene.claimed() == [job.id]

    def test_but_no_longer_than_its_time(self, scene: Scene) -> None:
        job = waiting(scene, timeout=MINUTE)

        scene.clock.advance(MINUTE)

        assert scene.claimed() == [job.id]

    def test_a_run_that_does_not_wait_is_left_alone(self, scene: Scene) -> None:
        job = scene.running()
        scene.sleep(job, DAY)

        assert scene.driver.steps.look_again([(job.id, SECOND), (new_id(), SECOND)]) == []
        scene.clock.advance(HOUR)
        assert scene.claimed() == []

    def test_no_look_is_no_question(self, scene: Scene) -> None:
        assert scene.driver.steps.look_again([]) == []


class TestOpenPublishers(Suite, needs={Part.EVENTS, Part.TRANSACTIONS}):
    def test_what_is_rolled_back_wakes_nobody(self, scene: Scene) -> None:
        waiting(scene)

        scene.undo(lambda: publish(scene))

        assert scene.claimed() == []
        scene.clock.advance(HOUR)
        assert ended(scene, scene.take()) is None

    def test_nobody_is_due_before_the_commit(self, scene: Scene) -> None:
        job = waiting(scene)

        with scene.held_open(lambda: publish(scene)) as woken:
            assert woken == 1
            assert scene.claimed() == []

        assert scene.claimed() == [job.id]

    def test_an_event_that_was_open_when_the_wait_began_is_found_once_it_is_committed(
        self, scene: Scene
    ) -> None:
        job = scene.running()
        with scene.held_open(lambda: publish(scene)):
            scene.wait_for(job, EVENT)
            assert scene.driver.steps.look_again([(job.id, HOUR)]) == []

        scene.clock.advance(UNSURE)
        assert payload(ended(scene, scene.take())) == 1

    def test_a_publisher_that_meets_a_suspension_at_one_moment_is_never_missed(
        self, scene: Scene
    ) -> None:
        jobs = [scene.running(key) for key in "abcd"]

        def suspend(job: ClaimedJob) -> object:
            scene.wait_for(job, EVENT)
            return scene.driver.steps.look_again([(job.id, HOUR)])

        suspending: list[Callable[[], object]] = [lambda job=job: suspend(job) for job in jobs]  # type: ignore[misc]
        scene.put(jobs[0])
        scene.at_once(lambda: publish(scene), *suspending)
        publish(scene)

        scene.clock.advance(UNSURE)
        assert sorted(scene.claimed()) == sorted(job.id for job in jobs)
