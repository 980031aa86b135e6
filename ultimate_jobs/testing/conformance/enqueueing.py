"""What an enqueue writes, and who holds a key."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import Batch, Enqueued, Found, NewJob
from ultimate_jobs.core.states import LIVE, TERMINAL, JobState
from ultimate_jobs.drivers.base import Part
from ultimate_jobs.errors import InvariantError
from ultimate_jobs.testing.conformance.scene import (
    HOUR,
    JOB,
    PATIENCE,
    SECOND,
    Scene,
    Suite,
)

VALUES = (
    '{"b": [1, 2.50, 1e3, -0.1], "a": {"": null, "ä€😀": true}, "text": "\\u0001\\n\\"\\\\ "}',
    '{"long": 123456789012345678901234567890.00000000000000000001}',
    '"text"',
    "[]",
    "null",
)


def exactly(text: str) -> Any:
    """Read JSON without rounding its numbers."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


class TestEnqueue(Suite):
    def test_a_job_is_delivered_as_it_was_asked_for(self, scene: Scene) -> None:
        asked = NewJob(new_id(), new_id(), "order-1", '{"order": 1}', "job:conformance")
        batch = Batch(
            name=JOB,
            queue="mail",
            jobs=[asked],
            max_attempts=7,
            priority=2,
            tenant_id="acme",
            traceparent="00-trace",
            enqueued_by="someone",
            related_type_id=4,
            related_id="17",
        )

        assert scene.driver.queue.enqueue(batch) == [
            Enqueued(asked.id, asked.run_id, deduped=False)
        ]

        job = scene.take(queues=("mail",))
        assert (job.id, job.run_id, job.name, job.queue) == (asked.id, asked.run_id, JOB, "mail")
        assert (job.attempt, job.max_attempts, job.last_error) == (1, 7, None)
        assert (job.tenant_id, job.traceparent) == ("acme", "00-trace")
        assert exactly(job.input) == {"order": 1}

    @pytest.mark.parametrize("text", VALUES)
    def test_no_value_of_an_input_changes_on_the_way(self, scene: Scene, text: str) -> None:
        scene.enqueue("a", text=text)

        assert exactly(scene.take().input) == exactly(text)

    @pytest.mark.parametrize("text", ["", "{", "NaN", '{"a": Infinity}', '"\\u0000"', "'a'"])
    def test_what_is_no_json_is_refused_and_nothing_of_the_batch_is_written(
        self, scene: Scene, text: str
    ) -> None:
        good, bad = scene.batch("a"), scene.batch("b", text=text)
        both = scene.batch()

        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the store says
            scene.driver.queue.enqueue(
                Batch(
                    name=both.name,
                    queue=both.queue,
                    max_attempts=both.max_attempts,
                    jobs=[*good.jobs, *bad.jobs],
                )
            )

        assert scene.claimed() == []

    def test_the_answers_are_in_the_order_of_the_jobs(self, scene: Scene) -> None:
        batch = scene.batch("c", "a", "b")

        answers = scene.driver.queue.enqueue(batch)

        assert [answer.id for answer in answers] == [job.id for job in batch.jobs]
        assert sorted(scene.claimed()) == sorted(answer.id for answer in answers)

    def test_a_job_of_no_attempts_is_refused(self, scene: Scene) -> None:
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the store says
            scene.enqueue("a", max_attempts=0)

        assert scene.claimed() == []

    @pytest.mark.parametrize("how", ["delay", "run_at"])
    def test_a_job_for_later_waits_until_then(self, scene: Scene, how: str) -> None:
        later = HOUR if how == "delay" else scene.clock() + HOUR
        (asked,) = scene.enqueue("a", **{how: later})

        scene.clock.advance(HOUR - SECOND)
        assert scene.claimed() == []
        scene.clock.advance(SECOND)
        assert scene.claimed() == [asked.id]

    def test_a_job_for_an_instant_that_has_passed_is_due(self, scene: Scene) -> None:
        (asked,) = scene.enqueue("a", run_at=scene.clock() - HOUR)

        assert scene.claimed() == [asked.id]


class TestKeys(Suite):
    @pytest.mark.parametrize("state", sorted(LIVE))
    def test_a_live_job_holds_its_key_and_answers_for_it(
        self, scene: Scene, state: JobState
    ) -> None:
        (asked,) = scene.enqueue("a", delay=HOUR if state is JobState.DELAYED else timedelta(0))
        if state in {JobState.RUNNING, JobState.SUSPENDED}:
            job = scene.take()
            if state is JobState.SUSPENDED:
                scene.sleep(job, HOUR)

        (again,) = scene.enqueue("a")

        assert again == Enqueued(asked.id, asked.run_id, deduped=True)
        scene.clock.advance(2 * HOUR)
        assert scene.claimed() == [asked.id]

    @pytest.mark.parametrize("state", sorted(TERMINAL))
    def test_a_job_that_has_ended_holds_nothing(self, scene: Scene, state: JobState) -> None:
        ended = scene.ended(state)

        (again,) = scene.enqueue("a")

        assert (again.deduped, again.id == ended) == (False, False)
        assert scene.claimed() == [again.id]

    def test_the_first_input_of_a_key_stays(self, scene: Scene) -> None:
        scene.enqueue("a", text='{"n": 1}')
        scene.enqueue("a", text='{"n": 2}')

        assert exactly(scene.take().input) == {"n": 1}

    def test_a_batch_answers_for_what_is_there_and_writes_the_rest(self, scene: Scene) -> None:
        (there,) = scene.enqueue("b")

        answers = scene.enqueue("a", "b", "c")

        assert [answer.deduped for answer in answers] == [False, True, False]
        assert answers[1].id == there.id
        assert sorted(scene.claimed()) == sorted(answer.id for answer in answers)

    @pytest.mark.parametrize("other", [{"name": "conformance.other"}, {"tenant_id": "acme"}])
    def test_jobs_and_tenants_have_keys_of_their_own(
        self, scene: Scene, other: dict[str, Any]
    ) -> None:
        scene.enqueue("a")

        (answer,) = scene.enqueue("a", **other)

        assert not answer.deduped
        assert scene.holds_its_key("a", **other)

    @pytest.mark.parametrize("other", [{"queue": "mail"}, {"priority": 4}, {"lease_key": "job:a"}])
    def test_nothing_else_tells_keys_apart(self, scene: Scene, other: dict[str, Any]) -> None:
        (asked,) = scene.enqueue("a")

        (answer,) = scene.enqueue("a", **other)

        assert answer == Enqueued(asked.id, asked.run_id, deduped=True)

    def test_a_staged_job_holds_its_key_and_answers_for_it(self, scene: Scene) -> None:
        (staged,) = scene.stage("a")

        direct, again = scene.enqueue("a") + scene.stage("a")

        assert {direct.id, again.id} == {staged.id}
        assert direct.deduped
        assert again.deduped
        assert scene.claimed() == []

    def test_a_job_answers_for_what_would_be_staged(self, scene: Scene) -> None:
        (asked,) = scene.enqueue("a")

        assert scene.stage("a") == [Enqueued(asked.id, asked.run_id, deduped=True)]
        assert scene.driver.outbox.pending() == 0

    def test_of_many_callers_of_one_key_one_gets_a_job_and_all_get_its_answer(
        self, scene: Scene
    ) -> None:
        answers = [answer for (answer,) in scene.at_once(*[lambda: scene.enqueue("a")] * 6)]

        assert sorted(answer.deduped for answer in answers) == [False] + [True] * 5
        assert scene.claimed() == [answers[0].id]
        assert {answer.id for answer in answers} == {answers[0].id}

    def test_batches_with_the_same_keys_in_any_order_never_block_each_other(
        self, scene: Scene
    ) -> None:
        def ask(keys: str) -> list[Enqueued]:
            return scene.enqueue(*keys)

        orders = ["abcdef", "fedcba", "cfaebd", "bdfeca"]
        answers = scene.at_once(*[lambda keys=keys: ask(keys) for keys in orders])

        assert all(len(one) == 6 for one in answers)
        assert len(scene.claimed()) == 6


class TestRacingKeys(Suite, needs={Part.TRANSACTIONS}):
    def test_a_key_staged_in_an_open_transaction_is_waited_for(self, scene: Scene) -> None:
        with scene.held_open(lambda: scene.stage("a")) as (staged,):
            direct = scene.elsewhere(lambda: scene.enqueue("a"))
            another = scene.elsewhere(lambda: scene.stage("a"))
            assert not scene.answers_in_a_moment(direct)
            assert not scene.answers_in_a_moment(another)

        assert [one.result(PATIENCE)[0].id for one in (direct, another)] == [staged.id] * 2

    def test_it_is_free_when_that_transaction_is_undone(self, scene: Scene) -> None:
        with scene.held_open(lambda: scene.stage("a"), undone=True):
            direct = scene.elsewhere(lambda: scene.enqueue("a"))
            assert not scene.answers_in_a_moment(direct)

        (answer,) = direct.result(PATIENCE)
        assert not answer.deduped
        assert scene.claimed() == [answer.id]

    def test_no_other_key_is_waited_for(self, scene: Scene) -> None:
        with scene.held_open(lambda: scene.stage("a")):
            (direct,), (staged,) = scene.enqueue("b"), scene.stage("c")

        assert not direct.deduped
        assert not staged.deduped

    def test_a_key_of_a_savepoint_that_was_undone_is_free(self, scene: Scene) -> None:
        def work() -> None:
            scene.undo(lambda: scene.stage("a"))
            scene.stage("b")

        with scene.held_open(work):
            (answer,) = scene.enqueue("a")

        assert not answer.deduped

    def test_a_job_enqueued_apart_outlives_the_transaction_around_it(self, scene: Scene) -> None:
        (answer,) = scene.undo(lambda: scene.driver.queue.enqueue_apart(scene.batch("a")))

        assert scene.claimed() == [answer.id]

    def test_a_job_enqueued_apart_needs_no_transaction(self, scene: Scene) -> None:
        (answer,) = scene.driver.queue.enqueue_apart(scene.batch("a"))

        assert scene.claimed() == [answer.id]

    def test_a_key_that_the_transaction_itself_has_staged_is_refused_apart(
        self, scene: Scene
    ) -> None:
        def work() -> None:
            scene.stage("a")
            with pytest.raises(InvariantError):
                scene.driver.queue.enqueue_apart(scene.batch("a"))

        scene.driver.steps.transact(work)

        assert scene.driver.outbox.pending() == 1


class TestFinding(Suite):
    def test_a_job_is_found_in_every_state(self, scene: Scene) -> None:
        (asked,) = scene.enqueue("a")
        assert scene.driver.queue.find(asked.id) == Found(JOB, JobState.READY)

        job = scene.take()
        assert scene.driver.queue.find(asked.id) == Found(JOB, JobState.RUNNING)
        scene.settle(job, result='{"n": 1}')

        found = scene.driver.queue.find(asked.id)
        assert found is not None
        assert (found.state, exactly(found.result or "")) == (JobState.DONE, {"n": 1})

    def test_one_that_failed_is_found_with_its_error(self, scene: Scene) -> None:
        job = scene.running("a")
        scene.settle(job, JobState.DEAD, error="ValueError: no")

        found = scene.driver.queue.find(job.id)
        assert found == Found(JOB, JobState.DEAD, error="ValueError: no")

    def test_a_staged_row_is_found_until_it_is_a_job(self, scene: Scene) -> None:
        (asked,) = scene.stage("a")
        assert scene.driver.queue.find(asked.id) == Found(JOB, None)

        scene.relay()
        assert scene.driver.queue.find(asked.id) == Found(JOB, JobState.READY)

    def test_what_is_not_there_is_not_found(self, scene: Scene) -> None:
        assert scene.driver.queue.find(new_id()) is None

    @pytest.mark.parametrize("text", VALUES)
    def test_no_value_of_a_result_changes_on_the_way(self, scene: Scene, text: str) -> None:
        job = scene.running()
        scene.settle(job, result=text)

        found = scene.driver.queue.find(job.id)

        assert found is not None
        assert exactly(found.result or "") == exactly(text)


class TestFindingInTransactions(Suite, needs={Part.TRANSACTIONS}):
    def test_what_is_not_committed_is_found_by_its_own_transaction_alone(
        self, scene: Scene
    ) -> None:
        queue = scene.driver.queue

        def work() -> None:
            (asked,) = scene.stage("a")
            assert queue.find(asked.id) == Found(JOB, None, committed=False)

        scene.driver.steps.transact(work)

    def test_what_is_committed_is_found_by_every_transaction(self, scene: Scene) -> None:
        (asked,) = scene.enqueue("a")
        found = scene.driver.steps.transact(lambda: scene.driver.queue.find(asked.id))

        assert found == Found(JOB, JobState.READY)

    def test_what_others_have_done_since_a_transaction_began_is_found(self, scene: Scene) -> None:
        def work() -> None:
            asked = scene.elsewhere(lambda: scene.enqueue("a")).result(PATIENCE)
            job = scene.elsewhere(scene.take).result(PATIENCE)
            assert scene.driver.queue.find(job.id) == Found(JOB, JobState.RUNNING)
            assert asked[0].id == job.id

        scene.driver.steps.transact(work)
