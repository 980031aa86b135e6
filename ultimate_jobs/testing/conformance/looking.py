"""What an operator sees: jobs, queues, workers, and what nobody takes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from ultimate_jobs.core.dispatch import ArmedTask
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import HeldClaim, QueueDepth
from ultimate_jobs.core.selection import Chosen, Look, Selection
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import Part
from ultimate_jobs.testing.conformance.intervening import OperatorSuite
from ultimate_jobs.testing.conformance.scene import (
    DAY,
    HOUR,
    JOB,
    LEASE,
    MINUTE,
    QUEUE,
    SECOND,
    WORKER,
    Scene,
)


def look(
    scene: Scene, *, source: str = "created", limit: int = 50, window: int = 100, **words: Any
) -> Chosen:
    """Find jobs."""
    where = {key: words.pop(key) for key in ("cursor", "backwards") if key in words}
    return scene.driver.operator.choose(
        Selection(**words), Look(source=source, limit=limit, window=window, **where)
    )


def ids(chosen: Chosen) -> list[UUID]:
    """Answer the jobs that were found."""
    return [place.id for place in chosen.places]


def instants_of(*texts: str) -> list[datetime]:
    """Read instants in ISO 8601."""
    return [datetime.fromisoformat(text) for text in texts]


class TestChoosing(OperatorSuite):
    def some(self, scene: Scene, count: int = 3, **options: Any) -> list[UUID]:
        """Enqueue jobs, one a second; answer them newest first."""
        found = []
        for number in range(count):
            found += [answer.id for answer in scene.enqueue(f"{options} {number}", **options)]
            scene.clock.advance(SECOND)
        return found[::-1]

    def test_jobs_are_found_newest_first(self, scene: Scene) -> None:
        jobs = self.some(scene)

        chosen = look(scene)

        assert ids(chosen) == jobs
        assert (chosen.seen, chosen.last, chosen.cursor_fits) == (3, chosen.places[-1], None)

    def test_nothing_is_there(self, scene: Scene) -> None:
        assert look(scene) == Chosen(places=(), seen=0, last=None, cursor_fits=None)

    def test_a_list_goes_on_behind_its_last_place_and_back(self, scene: Scene) -> None:
        jobs = self.some(scene, 5)

        first = look(scene, limit=2)
        second = look(scene, limit=2, cursor=first.places[-1])
        back = look(scene, limit=1, cursor=second.places[0], backwards=True)

        assert (ids(first), ids(second), ids(back)) == (jobs[:2], jobs[2:4], jobs[1:2])
        assert second.cursor_fits

    def test_a_place_is_known_when_its_job_is_gone(self, scene: Scene) -> None:
        jobs = self.some(scene)
        first = look(scene, limit=1)
        scene.driver.operator.remove_many(ids(first), 1)

        second = look(scene, cursor=first.places[0])

        assert (ids(second), second.cursor_fits) == (jobs[1:], None)

    def test_no_more_rows_are_looked_at_than_the_window_has(self, scene: Scene) -> None:
        jobs = self.some(scene, 2, queue="mail") + self.some(scene, 3)

        chosen = look(scene, window=3, queue="mail")

        assert (ids(chosen), chosen.seen) == ([], 3)
        assert chosen.last is not None
        assert chosen.last.id == jobs[-1]

    @pytest.mark.parametrize(
        "words",
        [
            {"queue": "mail"},
            {"name": "conformance.other"},
            {"tenant": "acme"},
            {"related": (4, "17")},
        ],
        ids=str,
    )
    def test_only_those_that_are_asked_for(self, scene: Scene, words: dict[str, Any]) -> None:
        options = dict(words)
        if "tenant" in words:
            options = {"tenant_id": "acme"}
        if "related" in words:
            options = {"related_type_id": 4, "related_id": "17"}
        meant = self.some(scene, 2, **options)
        self.some(scene, 2)

        assert ids(look(scene, **words)) == meant

    @pytest.mark.parametrize("source", ["created", "key"])
    def test_by_key(self, scene: Scene, source: str) -> None:
        old = scene.ended(JobState.DONE, "a")
        scene.clock.advance(SECOND)
        (new,) = scene.enqueue("a")
        scene.enqueue("b")

        assert ids(look(scene, source=source, key="a")) == [new.id, old]

    def test_by_what_they_are_about(self, scene: Scene) -> None:
        meant = self.some(scene, 2, related_type_id=4, related_id="17")
        self.some(scene, 1, related_type_id=4, related_id="18")

        assert ids(look(scene, source="related", related=(4, "17"))) == meant

    def test_by_age(self, scene: Scene) -> None:
        (old,) = self.some(scene, 1)
        scene.clock.advance(HOUR)
        (new,) = self.some(scene, 1, queue="mail")

        assert ids(look(scene, older_than=MINUTE)) == [old]
        assert ids(look(scene, newer_than=MINUTE)) == [new]

    def test_by_a_part_of_the_error(self, scene: Scene) -> None:
        for key, error in (("a", "ValueError: 100% wrong"), ("b", "KeyError: 'x_y'"), ("c", None)):
            scene.settle(scene.running(key), JobState.DEAD, error=error)

        found = [
            len(ids(look(scene, error_like=text))) for text in ("valueerror", "0%", "x_y", "x%y")
        ]

        assert found == [1, 1, 1, 0]

    def test_by_state(self, scene: Scene) -> None:
        dead, failed = scene.ended(JobState.DEAD, "a"), scene.ended(JobState.FAILED, "b")
        (ready,) = scene.enqueue("c")

        assert set(ids(look(scene, states=(JobState.DEAD, JobState.FAILED)))) == {dead, failed}
        assert ids(look(scene, states=(JobState.READY,))) == [ready.id]

    def test_among_those_that_live_or_ended_without_success(self, scene: Scene) -> None:
        done, dead = scene.ended(JobState.DONE, "a"), scene.ended(JobState.DEAD, "b")
        job = scene.running("c")
        asleep = scene.running("d")
        scene.sleep(asleep, DAY)

        assert ids(look(scene, source="ended")) == [dead]
        assert set(ids(look(scene, source="live"))) == {job.id, asleep.id}
        assert done in ids(look(scene))

    def test_only_of_the_given_ones(self, scene: Scene) -> None:
        jobs = self.some(scene, 2)

        chosen = look(scene, source="ids", ids=(jobs[1], new_id()))

        assert ids(chosen) == [jobs[1]]


class TestDepths(OperatorSuite):
    def depth(self, scene: Scene, queue: str = QUEUE, cap: int = 100) -> QueueDepth:
        return next(depth for depth in scene.driver.operator.queues(cap) if depth.queue == queue)

    def test_no_queue_holds_anything(self, scene: Scene) -> None:
        assert scene.driver.operator.queues(100) == []
        assert scene.driver.operator.demand(100) == {}

    def test_each_job_is_counted_once(self, scene: Scene) -> None:
        for state in (JobState.DONE, JobState.FAILED, JobState.DEAD, JobState.DEAD):
            scene.ended(state, f"{state} {new_id()}")
        scene.sleep(scene.running("asleep"), DAY)
        scene.running("running")
        scene.enqueue("ready 1", "ready 2")
        scene.enqueue("delayed", delay=HOUR)
        scene.clock.advance(2 * SECOND)

        depth = self.depth(scene)

        counts = (depth.ready, depth.delayed, depth.running, depth.suspended, depth.standing_by)
        assert counts == (2, 1, 1, 1, 0)
        assert (depth.failed, depth.dead, depth.capped) == (1, 2, False)
        assert depth.oldest_ready_seconds == pytest.approx(2)
        assert depth.paused_at is None

    def test_counts_stop_at_the_cap_and_say_so(self, scene: Scene) -> None:
        scene.enqueue(*"abcde")

        depth = self.depth(scene, cap=3)

        assert (depth.ready, depth.capped) == (3, True)

    def test_a_paused_queue_is_named_though_it_is_empty(self, scene: Scene) -> None:
        scene.driver.operator.pause("queue", "mail", by="someone", reason="because")

        depth = self.depth(scene, "mail")

        assert (depth.paused_by, depth.pause_reason, depth.ready) == ("someone", "because", 0)
        assert depth.paused_at == scene.clock()

    def test_queues_are_in_the_order_of_their_names(self, scene: Scene) -> None:
        for queue in "cab":
            scene.enqueue(queue, queue=queue)

        assert [depth.queue for depth in scene.driver.operator.queues(100)] == ["a", "b", "c"]

    def test_demand_is_what_may_be_claimed_and_what_runs(self, scene: Scene) -> None:
        scene.running("running")
        scene.enqueue("a", "b")
        scene.enqueue("later", delay=HOUR)
        scene.enqueue("c", queue="mail")
        scene.enqueue("d", queue="paused")
        scene.driver.operator.pause("queue", "paused", by=None, reason=None)

        assert scene.driver.operator.demand(100) == {QUEUE: 3, "mail": 1}

    def test_it_reads_no_more_of_each_than_the_cap(self, scene: Scene) -> None:
        scene.enqueue(*"ab")
        scene.claim()
        scene.enqueue(*"cdefg")

        assert scene.driver.operator.demand(3) == {QUEUE: 5}

    def test_the_backlog_is_what_waits_in_the_outbox(self, scene: Scene) -> None:
        operator = scene.driver.operator
        assert (operator.backlog(10).waiting, operator.backlog(10).oldest_seconds) == (0, None)
        scene.stage("bad", max_attempts=0)
        scene.driver.outbox.isolate(10)
        scene.stage("a", "b")
        scene.clock.advance(2 * SECOND)

        backlog = operator.backlog(10)

        assert (backlog.waiting, backlog.refused) == (3, 1)
        assert backlog.oldest_seconds == pytest.approx(2)
        assert operator.backlog(2).waiting == 2


class TestTheFleet(OperatorSuite):
    def workers(self, scene: Scene, most: int = 10) -> Sequence[Any]:
        return scene.driver.operator.fleet(workers=most, tasks=None).workers

    def test_a_worker_is_as_its_last_sign_of_life_says(self, scene: Scene) -> None:
        job, began = scene.running(), scene.clock()
        scene.beat()
        scene.clock.advance(SECOND)
        scene.beat(HeldClaim(job.id, job.claim), queues=[QUEUE], jobs=[JOB, "conformance.other"])

        (worker,) = self.workers(scene)

        assert (worker["id"], worker["host"], worker["pid"]) == (WORKER, "conformance", 1)
        assert (worker["state"], worker["queues"], worker["concurrency"]) == ("running", [QUEUE], 8)
        assert (worker["alive"], worker["running"]) == (True, [str(job.id)])
        instants = [worker[name] for name in ("started_at", "beat_at", "expires_at")]
        assert instants_of(*instants) == [began, scene.clock(), scene.clock() + LEASE]

    def test_who_gave_a_sign_last_comes_first_and_the_silent_are_told_apart(
        self, scene: Scene
    ) -> None:
        scene.beat(worker="silent")
        scene.lapse()
        scene.beat(worker="alive")

        assert [(one["id"], one["alive"]) for one in self.workers(scene)] == [
            ("alive", True),
            ("silent", False),
        ]
        assert [one["id"] for one in self.workers(scene, 1)] == ["alive"]

    def test_who_says_farewell_is_gone(self, scene: Scene) -> None:
        scene.beat()
        scene.driver.queue.farewell(WORKER)

        assert self.workers(scene) == []

    def test_who_was_silent_for_a_day_is_forgotten(self, scene: Scene) -> None:
        scene.beat(worker="silent")
        scene.clock.advance(DAY + LEASE + SECOND)
        scene.beat()

        assert [one["id"] for one in self.workers(scene)] == [WORKER]

    def test_nothing_is_asked_about_the_schedule(self, scene: Scene) -> None:
        fleet = scene.driver.operator.fleet(workers=1, tasks=None)

        assert (fleet.tasks, fleet.leader) == ([], None)
        assert fleet.now == scene.clock()


class TestTheFleetsSchedule(OperatorSuite, needs={Part.SCHEDULE}):
    def test_who_leads_and_how_far_tasks_have_come(self, scene: Scene) -> None:
        schedule, now = scene.driver.schedule, scene.clock()
        schedule.lead("scheduler-1", LEASE)
        schedule.watermarks([ArmedTask("b", "hourly", now), ArmedTask("a", "daily", now)])
        scene.driver.operator.pause("task", "b", by="someone", reason=None)

        fleet = scene.driver.operator.fleet(workers=1, tasks=["a"])

        assert fleet.leader is not None
        assert fleet.leader["holder"] == "scheduler-1"
        a, b = fleet.tasks
        assert (a["name"], a["rule"], a["last_fired"], a["paused_at"]) == ("a", "daily", None, None)
        assert (b["name"], b["paused_by"], instants_of(b["paused_at"])) == ("b", "someone", [now])

    def test_whose_lease_has_run_out_leads_no_more(self, scene: Scene) -> None:
        scene.driver.schedule.lead("scheduler-1", LEASE)
        scene.clock.advance(LEASE)

        assert scene.driver.operator.fleet(workers=1, tasks=[]).leader is None


class TestStrandedJobs(OperatorSuite):
    def stranded(self, scene: Scene, patience: timedelta = MINUTE) -> list[tuple[str, str, str]]:
        found = scene.driver.operator.stranded(patience, 100)
        return [(one.queue, one.name, one.why) for one in found]

    def test_no_worker_lives(self, scene: Scene) -> None:
        scene.enqueue("a", "b")
        scene.clock.advance(MINUTE)
        assert self.stranded(scene) == []
        scene.clock.advance(SECOND)

        (stranded,) = scene.driver.operator.stranded(MINUTE, 100)

        assert (stranded.queue, stranded.name, stranded.count) == (QUEUE, JOB, 2)
        assert (stranded.why, stranded.capped) == ("no worker lives", False)
        assert stranded.oldest_seconds == pytest.approx(61)

    def test_no_worker_serves_the_queue_or_knows_the_job(self, scene: Scene) -> None:
        scene.enqueue("a", queue="mail")
        scene.enqueue("b", name="conformance.unknown")
        scene.enqueue("c")
        scene.clock.advance(HOUR)
        scene.beat()

        assert self.stranded(scene) == [
            (QUEUE, "conformance.unknown", "no worker knows it"),
            ("mail", JOB, "no worker serves its queue"),
        ]

    def test_what_waits_or_is_paused_is_not_stranded(self, scene: Scene) -> None:
        scene.enqueue("later", delay=DAY)
        scene.enqueue("paused", queue="mail")
        scene.driver.operator.pause("queue", "mail", by=None, reason=None)
        scene.clock.advance(HOUR)

        assert self.stranded(scene) == []

    def test_the_oldest_of_the_window_are_counted(self, scene: Scene) -> None:
        scene.enqueue(*"abcd")
        scene.clock.advance(HOUR)

        (stranded,) = scene.driver.operator.stranded(MINUTE, 2)

        assert (stranded.count, stranded.capped) == (2, True)

    def test_statements_have_a_name_and_a_text(self, scene: Scene) -> None:
        statements = scene.driver.operator.statements()

        assert all(name and text for name, text in statements.items())
