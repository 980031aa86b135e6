"""What a claim takes, in which order, and what becomes of claims whose worker is gone."""

from __future__ import annotations

import pytest

from ultimate_jobs.core.records import ClaimRequest, Claims
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import LAPSED_ERROR, Part
from ultimate_jobs.errors import ClaimQueuesEmpty
from ultimate_jobs.testing.conformance.scene import (
    HOUR,
    JOB,
    LEASE,
    OTHER_WORKER,
    PATIENCE,
    QUEUE,
    SECOND,
    WORKER,
    Scene,
    Suite,
)


class TestClaim(Suite):
    def test_a_job_is_claimed_once(self, scene: Scene) -> None:
        scene.enqueue("a")

        assert len(scene.claimed()) == 1
        assert scene.claimed(worker=OTHER_WORKER) == []

    def test_each_claim_has_a_number_of_its_own_and_counts_an_attempt(self, scene: Scene) -> None:
        first = scene.running()
        scene.settle(first, JobState.READY)

        second = scene.take(worker=OTHER_WORKER)

        assert (first.attempt, second.attempt) == (1, 2)
        assert (second.id, second.claim > first.claim) == (first.id, True)

    def test_jobs_of_unknown_names_are_left_for_others(self, scene: Scene) -> None:
        (known,) = scene.enqueue("a", name="conformance.known")
        (unknown,) = scene.enqueue("a", name="conformance.unknown", priority=9)

        assert [job.id for job in scene.claim("conformance.known").jobs] == [known.id]
        assert [job.id for job in scene.claim("conformance.unknown").jobs] == [unknown.id]

    def test_a_worker_that_knows_no_job_takes_none(self, scene: Scene) -> None:
        scene.enqueue("a")
        request = ClaimRequest(
            worker=WORKER, queues=[QUEUE], names=[], room=1, shares=[1], lease=LEASE
        )

        assert scene.driver.queue.claim(request) == Claims([], [])

    def test_queues_that_are_not_served_are_left_for_others(self, scene: Scene) -> None:
        (mail,) = scene.enqueue("a", queue="mail")

        assert scene.claimed() == []
        assert scene.claimed(queues=(QUEUE, "mail")) == [mail.id]

    def test_a_claim_without_a_queue_is_refused(self, scene: Scene) -> None:
        with pytest.raises(ClaimQueuesEmpty):
            scene.claim(queues=())

    def test_the_order_is_priority_then_instant_then_id(self, scene: Scene) -> None:
        now = scene.clock()
        one, two = scene.enqueue("late 1", "late 2", run_at=now)
        (early,) = scene.enqueue("early", run_at=now - HOUR)
        (urgent,) = scene.enqueue("urgent", run_at=now, priority=5)
        (last,) = scene.enqueue("last", run_at=now - 2 * HOUR, priority=-1)

        assert scene.claimed() == [urgent.id, early.id, *sorted([one.id, two.id]), last.id]

    def test_a_claim_takes_the_first_of_that_order_and_no_more_than_its_room(
        self, scene: Scene
    ) -> None:
        asked = [scene.enqueue(key, priority=-place)[0].id for place, key in enumerate("abcd")]

        assert scene.claimed(room=3) == asked[:3]
        assert scene.claimed(room=3) == asked[3:]

    def test_rows_that_may_wait_are_taken_beyond_the_room(self, scene: Scene) -> None:
        asked = [scene.enqueue(key, priority=-place)[0].id for place, key in enumerate("abcdef")]

        assert scene.claimed(room=1, ahead=3, waitable=(JOB,)) == asked[:4]
        assert scene.claimed(room=0, ahead=1, waitable=(JOB,)) == [asked[4]]
        assert scene.claimed(room=0, ahead=1) == []

    def test_none_is_taken_to_wait_that_was_tried_or_has_no_other_attempt(
        self, scene: Scene
    ) -> None:
        scene.settle(scene.running("tried"), JobState.READY)
        (once,) = scene.enqueue("once", priority=-1, max_attempts=1)
        (fresh,) = scene.enqueue("fresh", priority=-2)

        ahead = {"ahead": 9, "waitable": (JOB,)}
        assert scene.claimed(room=0, **ahead) == []
        tried = scene.take(room=1, **ahead)
        assert tried.attempt == 2
        assert scene.claimed(room=1, **ahead) == [once.id, fresh.id]

    def test_an_urgent_job_for_later_hides_none_that_is_due(self, scene: Scene) -> None:
        scene.enqueue("later", priority=9, delay=HOUR)
        (due,) = scene.enqueue("due")

        assert scene.claimed(room=1) == [due.id]

    def test_a_suspended_run_is_claimed_when_its_time_has_come(self, scene: Scene) -> None:
        job = scene.running()
        scene.sleep(job, HOUR)

        scene.clock.advance(HOUR - SECOND)
        assert scene.claimed() == []
        scene.clock.advance(SECOND)
        again = scene.take()

        assert (again.id, again.run_id, again.attempt) == (job.id, job.run_id, 1)

    def test_many_workers_take_each_job_once_between_them(self, scene: Scene) -> None:
        asked = scene.enqueue(*map(str, range(24)))

        def work(worker: str) -> list[Claims]:
            return [scene.claim(worker=worker, room=3) for _ in range(4)]

        claims = scene.at_once(*[lambda name=name: work(name) for name in "abcd"])
        claims.append([scene.claim()])

        taken = [job.id for ours in claims for one in ours for job in one.jobs]
        assert sorted(taken) == sorted(answer.id for answer in asked)


class TestShares(Suite):
    def test_no_queue_gives_more_than_its_share(self, scene: Scene) -> None:
        scene.enqueue(*"abcd")
        scene.enqueue(*"efgh", queue="mail")

        jobs = scene.claim(queues=(QUEUE, "mail"), room=8, share=3).jobs

        assert sorted(job.queue for job in jobs) == [QUEUE] * 3 + ["mail"] * 3

    def test_what_one_queue_does_not_need_the_other_gets(self, scene: Scene) -> None:
        scene.enqueue("a")
        scene.enqueue(*"efgh", queue="mail")

        jobs = scene.claim(queues=(QUEUE, "mail"), room=4).jobs

        assert sorted(job.queue for job in jobs) == [QUEUE] + ["mail"] * 3


class TestPausedQueues(Suite, needs={Part.OPERATOR}):
    def test_a_paused_queue_gives_nothing_until_it_is_resumed(self, scene: Scene) -> None:
        (asked,) = scene.enqueue("a")
        (other,) = scene.enqueue("b", queue="mail")
        scene.driver.operator.pause("queue", QUEUE, by=None, reason=None)

        assert scene.claimed(queues=(QUEUE, "mail")) == [other.id]
        scene.driver.operator.resume("queue", QUEUE)
        assert scene.claimed(queues=(QUEUE, "mail")) == [asked.id]

    def test_it_gives_back_no_lapsed_claim_either(self, scene: Scene) -> None:
        job = scene.running()
        scene.driver.operator.pause("queue", QUEUE, by=None, reason=None)
        scene.lapse()

        assert scene.claimed() == []
        scene.driver.operator.resume("queue", QUEUE)
        assert scene.claimed() == [job.id]


class TestHeldJobs(Suite, needs={Part.OPERATOR, Part.TRANSACTIONS}):
    def test_a_job_that_an_open_transaction_has_changed_is_passed_over_not_waited_for(
        self, scene: Scene
    ) -> None:
        (held,), (free,) = scene.enqueue("a", priority=9), scene.enqueue("b")

        with scene.held_open(lambda: scene.driver.operator.cancel(held.id, None), undone=True):
            other = scene.elsewhere(lambda: scene.claimed(worker=OTHER_WORKER))
            assert other.result(PATIENCE) == [free.id]

        assert scene.claimed() == [held.id]


class TestLapsedClaims(Suite):
    def test_a_claim_is_left_alone_until_its_lease_has_run_out(self, scene: Scene) -> None:
        job = scene.running()

        scene.clock.advance(LEASE - SECOND)
        assert scene.claimed(worker=OTHER_WORKER) == []
        scene.clock.advance(SECOND)
        again = scene.take(worker=OTHER_WORKER)

        assert (again.id, again.attempt, again.claim > job.claim) == (job.id, 2, True)

    def test_it_goes_before_what_is_due(self, scene: Scene) -> None:
        lapsed = scene.running()
        scene.lapse()
        scene.enqueue("b", priority=9)

        assert scene.claimed(worker=OTHER_WORKER, room=1) == [lapsed.id]

    def test_a_worker_that_lives_keeps_its_claims(self, scene: Scene) -> None:
        scene.running()
        scene.beat(lease=10 * LEASE)
        scene.lapse()

        assert scene.claimed(worker=OTHER_WORKER) == []

    def test_a_claim_that_does_not_look_for_them_leaves_them(self, scene: Scene) -> None:
        scene.running()
        scene.lapse()

        assert scene.claimed(worker=OTHER_WORKER, reap=False) == []

    def test_jobs_of_unknown_names_are_left_for_others(self, scene: Scene) -> None:
        spent = scene.running("b", max_attempts=1)
        scene.running()
        scene.lapse()

        assert scene.claim("conformance.another") == Claims([], [])
        assert [job.id for job in scene.claim(JOB).buried] == [spent.id]

    def test_workers_at_one_moment_take_each_once(self, scene: Scene) -> None:
        scene.enqueue(*"abcdef")
        scene.claim(worker="dead")
        scene.lapse()

        claims = scene.at_once(*[lambda name=name: scene.claim(worker=name) for name in "wxyz"])

        assert sorted(job.attempt for one in claims for job in one.jobs) == [2] * 6

    def test_each_claim_has_the_lease_that_it_was_given(self, scene: Scene) -> None:
        scene.enqueue("a", "b")
        (short,) = scene.claim(room=1).jobs
        (long,) = scene.claim(room=1, lease=10 * LEASE).jobs
        scene.lapse()

        assert scene.claimed(worker=OTHER_WORKER) == [short.id]
        scene.clock.advance(10 * LEASE)
        assert long.id in scene.claimed(worker="worker-3")


class TestBurials(Suite):
    def test_a_claim_that_lapsed_on_the_last_attempt_is_buried(self, scene: Scene) -> None:
        job = scene.running(max_attempts=1, text='{"n": 1}', tenant_id="acme")
        scene.lapse()

        claims = scene.claim(worker=OTHER_WORKER)

        (buried,) = claims.buried
        assert claims.jobs == []
        assert (buried.id, buried.run_id, buried.name) == (job.id, job.run_id, JOB)
        assert (buried.queue, buried.tenant_id, buried.attempt) == (QUEUE, "acme", 1)
        assert buried.state is JobState.DEAD
        assert buried.last_error == LAPSED_ERROR
        assert scene.claim(worker=OTHER_WORKER) == Claims([], [])

    def test_it_keeps_the_error_of_the_attempt_before(self, scene: Scene) -> None:
        scene.settle(scene.running(max_attempts=2), JobState.READY, error="ValueError: early")
        scene.take()
        scene.lapse()

        (buried,) = scene.claim().buried

        assert buried.last_error.startswith(LAPSED_ERROR)
        assert buried.last_error.endswith("ValueError: early")

    def test_a_job_that_keeps_no_dead_letters_fails(self, scene: Scene) -> None:
        scene.running(max_attempts=1)
        scene.lapse()

        (buried,) = scene.claim(undead=(JOB,)).buried

        assert buried.state is JobState.FAILED

    def test_its_key_is_free(self, scene: Scene) -> None:
        scene.running(max_attempts=1)
        scene.lapse()
        scene.claim()

        assert not scene.holds_its_key("a")

    def test_it_takes_no_room_from_what_is_due(self, scene: Scene) -> None:
        scene.running(max_attempts=1)
        scene.lapse()
        (due,) = scene.enqueue("b")

        claims = scene.claim(room=1)

        assert [job.id for job in claims.jobs] == [due.id]
        assert len(claims.buried) == 1

    def test_workers_at_one_moment_bury_it_once(self, scene: Scene) -> None:
        scene.running(max_attempts=1)
        scene.lapse()

        claims = scene.at_once(*[lambda name=name: scene.claim(worker=name) for name in "wxyz"])

        assert sum(len(one.buried) for one in claims) == 1

    def test_a_worker_that_dies_at_each_attempt_ends_the_job_after_as_many(
        self, scene: Scene
    ) -> None:
        scene.enqueue("a", max_attempts=3)

        attempts = []
        for _ in range(3):
            attempts.append(scene.take().attempt)
            scene.lapse()
        end = scene.claim()

        assert attempts == [1, 2, 3]
        assert (end.jobs, len(end.buried)) == ([], 1)
