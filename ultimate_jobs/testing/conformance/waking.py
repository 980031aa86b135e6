"""Word of new work, which comes when it is committed, and not before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from ultimate_jobs.core.records import Notice, Topic
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import Listening, Part
from ultimate_jobs.testing.conformance.scene import HOUR, PATIENCE, QUEUE, Scene, Suite
from ultimate_jobs.testing.conformance.waiting import EVENT, publish

END = "the end of the test"
JOBS = Notice(Topic.JOBS, QUEUE)


class WakeSuite(Suite, needs={Part.WAKE}):
    """Tests of a driver that sends word."""

    @pytest.fixture
    def listening(self, scene: Scene) -> Iterator[Listening]:
        session = scene.driver.wake.listen()
        yield session
        session.close()

    def heard(self, scene: Scene, listening: Listening) -> list[Notice]:
        """Answer all that came until now, each once, by sending a last word."""
        scene.driver.wake.probe(END)
        found: list[Notice] = []
        last = {Notice(topic, END) for topic in Topic}
        while not last <= set(found):
            come = listening.receive(PATIENCE)
            assert come, "the last word did not come"
            found += come
        return sorted(set(found) - last, key=lambda notice: notice.text)

    def told_of(
        self, scene: Scene, listening: Listening, act: Callable[[], object]
    ) -> list[Notice]:
        """Answer what comes of an act, but not of what was before it."""
        self.heard(scene, listening)
        act()
        return self.heard(scene, listening)


class TestWord(WakeSuite):
    def test_a_job_that_is_due_names_its_queue(self, scene: Scene, listening: Listening) -> None:
        assert self.told_of(scene, listening, lambda: scene.enqueue("a", "b")) == [JOBS]

    def test_one_for_later_is_no_work_yet(self, scene: Scene, listening: Listening) -> None:
        assert self.told_of(scene, listening, lambda: scene.enqueue("a", delay=HOUR)) == []

    def test_a_key_that_is_held_brings_no_work(self, scene: Scene, listening: Listening) -> None:
        scene.enqueue("a", delay=HOUR)

        assert self.told_of(scene, listening, lambda: scene.enqueue("a")) == []

    def test_what_is_staged_is_work_for_a_relay(self, scene: Scene, listening: Listening) -> None:
        (notice,) = self.told_of(scene, listening, lambda: scene.stage("a", delay=HOUR))

        assert notice.topic is Topic.OUTBOX

    def test_what_is_relayed_is_work_for_workers(self, scene: Scene, listening: Listening) -> None:
        scene.stage("a")

        assert self.told_of(scene, listening, scene.relay) == [JOBS]

    def test_what_is_given_back_is_told_of(self, scene: Scene, listening: Listening) -> None:
        job = scene.running()

        assert self.told_of(scene, listening, lambda: scene.settle(job, JobState.READY)) == [JOBS]

    def test_what_is_to_wait_is_not(self, scene: Scene, listening: Listening) -> None:
        job = scene.running()

        def later() -> bool:
            return scene.settle(job, JobState.READY, wait=HOUR)

        assert self.told_of(scene, listening, later) == []

    def test_who_hears_it_finds_the_job(self, scene: Scene, listening: Listening) -> None:
        asked = scene.elsewhere(lambda: scene.enqueue("a"))

        assert listening.receive(PATIENCE) == [JOBS]
        assert scene.claimed() == [asked.result(PATIENCE)[0].id]

    def test_every_session_hears_it(self, scene: Scene, listening: Listening) -> None:
        other = scene.driver.wake.listen()
        try:
            scene.enqueue("a")
            assert listening.receive(PATIENCE) == other.receive(PATIENCE) == [JOBS]
        finally:
            other.close()


class TestWordOfEvents(WakeSuite, needs={Part.EVENTS}):
    def test_an_event_names_the_queues_of_those_that_waited(
        self, scene: Scene, listening: Listening
    ) -> None:
        job = scene.running()
        scene.wait_for(job, EVENT)
        scene.driver.steps.look_again([(job.id, HOUR)])

        assert self.told_of(scene, listening, lambda: publish(scene)) == [JOBS]

    def test_one_that_nobody_waited_for_names_none(
        self, scene: Scene, listening: Listening
    ) -> None:
        assert self.told_of(scene, listening, lambda: publish(scene)) == []


class TestWordOfOperators(WakeSuite, needs={Part.OPERATOR}):
    def test_what_an_operator_makes_due_is_told_of(
        self, scene: Scene, listening: Listening
    ) -> None:
        operator = scene.driver.operator
        dead = scene.ended(JobState.DEAD, "a")
        (later,) = scene.enqueue("b", delay=HOUR)

        assert self.told_of(scene, listening, lambda: operator.requeue(dead, None)) == [JOBS]
        scene.claim()
        assert self.told_of(scene, listening, lambda: operator.promote_many([later.id], 1)) == [
            JOBS
        ]

    def test_a_verb_that_is_refused_is_told_to_nobody(
        self, scene: Scene, listening: Listening
    ) -> None:
        done = scene.running()
        operator = scene.driver.operator

        assert self.told_of(scene, listening, lambda: operator.requeue(done.id, None)) == []


class TestWordAndTransactions(WakeSuite, needs={Part.TRANSACTIONS}):
    def test_it_comes_with_the_commit(self, scene: Scene, listening: Listening) -> None:
        self.heard(scene, listening)
        with scene.held_open(lambda: scene.stage("a")):
            assert self.heard(scene, listening) == []

        assert [notice.topic for notice in self.heard(scene, listening)] == [Topic.OUTBOX]

    def test_it_does_not_come_of_what_is_rolled_back(
        self, scene: Scene, listening: Listening
    ) -> None:
        def work() -> object:
            return scene.undo(lambda: scene.stage("a"))

        assert self.told_of(scene, listening, work) == []


class TestWordOfResults(WakeSuite):
    def test_who_listens_for_results_hears_what_is_told(
        self, scene: Scene, listening: Listening
    ) -> None:
        def tell() -> None:
            scene.driver.wake.tell(["one", "two"])

        assert self.told_of(scene, listening, tell) == [
            Notice(Topic.RESULTS, "one"),
            Notice(Topic.RESULTS, "two"),
        ]

    def test_who_names_a_topic_hears_of_no_other(self, scene: Scene) -> None:
        session = scene.driver.wake.listen(Topic.RESULTS)
        try:
            scene.enqueue("a")
            scene.driver.wake.tell([END])
            assert session.receive(PATIENCE) == [Notice(Topic.RESULTS, END)]
        finally:
            session.close()


class TestListening(WakeSuite):
    def test_a_probe_comes_to_everybody_who_listens(
        self, scene: Scene, listening: Listening
    ) -> None:
        assert self.heard(scene, listening) == []

    def test_nothing_comes_and_the_wait_ends(self, scene: Scene, listening: Listening) -> None:
        assert listening.receive(0.01) == []

    def test_another_thread_ends_the_wait_and_every_later_one(
        self, scene: Scene, listening: Listening
    ) -> None:
        threading.Timer(0.01, listening.interrupt).start()

        assert listening.receive(PATIENCE) == []
        assert listening.receive(PATIENCE) == []

    def test_who_renounces_hears_no_more(self, scene: Scene, listening: Listening) -> None:
        other = scene.driver.wake.listen()
        listening.renounce()

        self.told_of(scene, other, lambda: scene.enqueue("a"))
        other.close()

        listening.interrupt()
        assert listening.receive(PATIENCE) == []

    def test_a_session_may_be_closed_twice(self, scene: Scene, listening: Listening) -> None:
        listening.close()
