"""PostgreSQL and memory give the same answers to whatever is asked of them, one call after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings, strategies as st
from msgspec import structs

from tests.conformance.tables import empty_tables
from ultimate_jobs.core.dispatch import ArmedTask, TaskFire
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import (
    Batch,
    ClaimedJob,
    Claims,
    HeldClaim,
    NewEvent,
    Slot,
    SlotRequest,
)
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.core.selection import Look, Moved, Selection
from ultimate_jobs.core.states import TERMINAL, JobState
from ultimate_jobs.drivers.memory import MemoryDriver
from ultimate_jobs.drivers.postgres.driver import PostgresDriver
from ultimate_jobs.testing.conformance import Clock
from ultimate_jobs.testing.conformance.scene import DAY, HOUR, JOB, LEASE, MINUTE, SECOND, Scene

T = TypeVar("T")

OTHER_JOB = "conformance.other"
NAMES = (JOB, OTHER_JOB)
QUEUES = ("default", "mail")
WORKERS = ("worker-1", "worker-2")
KEY = "job:capped"
ENDINGS = (*sorted(TERMINAL), JobState.READY, JobState.READY, JobState.SUSPENDED)
SPANS = (timedelta(0), SECOND, MINUTE, LEASE + SECOND, HOUR)
EXAMPLES = 10
"""The same stories each time. Raise it, and drop ``derandomize``, after a change of a driver."""

SOURCES = ("created", "ended", "live")


def in_order(answer: object) -> object:
    """Put in order what has none."""
    return (sorted(answer.jobs), answer.remaining) if isinstance(answer, Moved) else answer


class Twins:
    """Two drivers that are asked the same. Every call compares what they answer."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.postgres = Scene(PostgresDriver("default", clock=self.clock), self.clock)
        self.memory = Scene(MemoryDriver(None, clock=self.clock), self.clock)
        self.asked: list[Any] = []
        self.held: list[tuple[ClaimedJob, str]] = []
        self.slots: dict[tuple[Scene, Any], Slot] = {}

    def both(self, ask: Callable[[Scene], T]) -> T:
        """Ask both; they agree."""
        expected, answer = ask(self.postgres), ask(self.memory)
        assert in_order(answer) == in_order(expected)
        return expected

    # What may be asked; each takes numbers, and makes of them what there is

    def enqueue(self, key: int, how: int, later: int) -> None:
        batch = self._batch(key, how, later)
        self.asked += [
            answer.id for answer in self.both(lambda scene: scene.driver.queue.enqueue(batch))
        ]

    def stage(self, key: int, how: int, later: int) -> None:
        batch = self._batch(key, how, later)
        self.asked += [
            answer.id for answer in self.both(lambda scene: scene.driver.outbox.stage(batch))
        ]

    def stage_and_undo(self, key: int, how: int, later: int) -> None:
        batch = self._batch(key, how, later)
        self.both(lambda scene: scene.undo(lambda: scene.driver.outbox.stage(batch)))

    def relay(self, limit: int, *_: int) -> None:
        self.both(lambda scene: scene.relay(limit + 1))

    def claim(self, worker: int, room: int, reap: int) -> None:
        who = WORKERS[worker % 2]

        def ask(scene: Scene) -> Claims:
            claims = scene.claim(
                *NAMES,
                worker=who,
                queues=QUEUES,
                room=2 * (1 + room) if reap % 2 else 200,
                share=1 + room if reap % 2 else 100,
                reap=not reap % 2,
                undead=[OTHER_JOB],
            )
            return replace(
                claims, jobs=[structs.replace(job, snapshot=None) for job in claims.jobs]
            )

        self.held += [(job, who) for job in self.both(ask).jobs]

    def settle(self, place: int, state: int, wait: int) -> None:
        if not self.held:
            return
        job, who = self._any(self.held, place)
        end = ENDINGS[state % len(ENDINGS)]
        words: dict[str, Any] = {
            "wait": self._any(SPANS, wait),
            "error": f"{wait}" if state % 3 else None,
        }
        if state % 4 == 0:
            words |= {"counted": False}
        self.both(
            lambda scene: scene.settle(job, end, worker=who, slot=self._slot(scene, job), **words)
        )

    def park(self, place: int, asleep: int, wait: int) -> None:
        if not self.held:
            return
        job, who = self._any(self.held, place)
        if asleep % 2:
            self.both(lambda scene: scene.sleep(job, self._any(SPANS, wait), worker=who))
        else:
            self.both(lambda scene: scene.wait_for(job, "paid", worker=who, timeout=HOUR))
            self.both(lambda scene: scene.driver.steps.look_again([(job.id, MINUTE)]))

    def publish(self, key: int, *_: int) -> None:
        event = NewEvent(id=new_id(), name="paid", payload=f"{key}", correlation_key=None, ttl=DAY)
        self.both(lambda scene: scene.driver.events.publish(event))

    def put(self, place: int, name: int, status: int) -> None:
        if not self.held:
            return
        job, who = self._any(self.held, place)
        done = StepStatus.COMPLETED if status % 3 else StepStatus.FAILED
        self.both(
            lambda scene: (
                scene.put(scene.fence(job, worker=who), f"step {name % 3}", done, position=name % 3)
                is not None
            )
        )

    def load(self, place: int, *_: int) -> None:
        if not self.held:
            return
        job, who = self._any(self.held, place)
        self.both(lambda scene: scene.steps(job, worker=who))

    def settle_wait(self, place: int, *_: int) -> None:
        if not self.held:
            return
        job, who = self._any(self.held, place)

        def ask(scene: Scene) -> object:
            try:
                return scene.driver.steps.settle_wait(scene.fence(job, worker=who), "wait")
            except Exception as error:  # noqa: BLE001 - what matters is which
                return type(error)

        self.both(ask)

    def beat(self, worker: int, how_many: int, _: int) -> None:
        who = WORKERS[worker % 2]
        ours = [job for job, holder in self.held if holder == who][: 1 + how_many]
        self.both(
            lambda scene: sorted(
                scene.beat(
                    *(HeldClaim(job.id, job.claim, self._slot(scene, job)) for job in ours),
                    worker=who,
                    queues=QUEUES[: 1 + how_many % 2],
                ),
                key=str,
            )
        )

    def acquire(self, place: int, cap: int, _: int) -> None:
        if not self.held:
            return
        job, who = self._any(self.held, place)
        request = SlotRequest(
            id=job.id, run_id=job.run_id, claim=job.claim, key=KEY, cap=1 + cap % 2
        )

        def ask(scene: Scene) -> tuple[bool, int]:
            assert scene.driver.slots is not None
            answer = scene.driver.slots.acquire(who, LEASE, [request])[job.id]
            if answer.number is not None:
                self.slots[scene, (job.id, job.claim)] = Slot(KEY, answer.number)
            return answer.number is not None, answer.others

        self.both(ask)

    def stand_by(self, place: int, cap: int, _: int) -> None:
        if self.held and cap % 2:
            job, who = self._any(self.held, place)
            claims = [(HeldClaim(job.id, job.claim), KEY)]
            self.both(lambda scene: scene.driver.slots.stand_by(who, claims))  # type: ignore[union-attr]
        self.both(lambda scene: scene.driver.slots.admit({JOB: 1 + cap % 2}, ""))  # type: ignore[union-attr]

    def advance(self, span: int, *_: int) -> None:
        self.clock.advance(self._any(SPANS, span))

    def intervene(self, verb: int, place: int, limit: int) -> None:
        if not self.asked:
            return
        job = self._any(self.asked, place)
        many = self.asked[-4:]
        verbs: list[Callable[[Scene], object]] = [
            lambda scene: scene.driver.operator.cancel(job, "because"),
            lambda scene: scene.driver.operator.requeue(job, None),
            lambda scene: scene.driver.operator.requeue(job, "step 1"),
            lambda scene: scene.driver.operator.resolve_step(job, "step 0", ran=True, output="0"),
            lambda scene: scene.driver.operator.requeue_many(many, 1 + limit),
            lambda scene: scene.driver.operator.cancel_many(many, 1 + limit, None),
            lambda scene: scene.driver.operator.promote_many(many, 1 + limit),
            lambda scene: scene.driver.operator.remove_many(many, 1 + limit),
            lambda scene: scene.driver.operator.pause("queue", "mail", by=None, reason=None),
            lambda scene: scene.driver.operator.resume("queue", "mail"),
        ]
        self.both(self._any(verbs, verb))

    def look(self, what: int, limit: int, state: int) -> None:
        states = (self._any(list(JobState), state),) if limit % 2 else ()
        looks: list[Callable[[Scene], object]] = [
            lambda scene: scene.driver.operator.queues(100),
            lambda scene: scene.driver.operator.demand(100),
            lambda scene: scene.driver.operator.backlog(1 + limit),
            lambda scene: scene.driver.operator.stranded(SECOND, 100),
            lambda scene: scene.driver.outbox.pending(),
            lambda scene: scene.driver.operator.choose(
                Selection(states=states),
                Look(source=self._any(SOURCES, state), limit=1 + limit, window=50),
            ),
        ]
        self.both(self._any(looks, what))

    def fire(self, key: int, how: int, span: int) -> None:
        now = self.clock()
        armed = [ArmedTask("task", f"rule {how % 2}", now)]
        marks = self.both(lambda scene: scene.driver.schedule.watermarks(armed))
        self.both(lambda scene: scene.driver.schedule.lead(self._any(WORKERS, how), LEASE))
        batch = replace(self._batch(key, how, 0), run_at=now, delay=None)
        due = TaskFire("task", marks["task"], now + self._any(SPANS, span), now, [batch])
        self.both(lambda scene: scene.driver.schedule.fire(WORKERS[0], LEASE, [due]))

    def forget(self, state: int, limit: int, _: int) -> None:
        which, before = self._any(sorted(TERMINAL), state), self.clock()
        self.both(
            lambda scene: scene.driver.retention.delete_jobs(JobState(which), before, 1 + limit)
        )
        self.both(lambda scene: scene.driver.retention.delete_receipts(before, 1 + limit))

    # What numbers mean

    def _batch(self, key: int, how: int, later: int) -> Batch:
        return self.memory.batch(
            f"key {key % 6}",
            name=NAMES[how % 2],
            queue=QUEUES[how // 2 % 2],
            priority=how % 3,
            max_attempts=1 + how % 3,
            delay=self._any(SPANS, later),
            lease_key=KEY if how % 2 else None,
            tenant_id="acme" if how % 5 == 0 else None,
        )

    def _any(self, things: Sequence[T], number: int) -> T:
        return things[number % len(things)]

    def _slot(self, scene: Scene, job: ClaimedJob) -> Slot | None:
        return self.slots.get((scene, (job.id, job.claim)))


CALLS = [
    Twins.enqueue,
    Twins.enqueue,
    Twins.enqueue,
    Twins.stage,
    Twins.stage_and_undo,
    Twins.relay,
    Twins.claim,
    Twins.claim,
    Twins.claim,
    Twins.settle,
    Twins.settle,
    Twins.park,
    Twins.publish,
    Twins.put,
    Twins.load,
    Twins.settle_wait,
    Twins.beat,
    Twins.acquire,
    Twins.stand_by,
    Twins.advance,
    Twins.advance,
    Twins.intervene,
    Twins.look,
    Twins.fire,
    Twins.forget,
]
NUMBERS = st.integers(0, 20)
STORIES = st.lists(
    st.tuples(st.sampled_from(CALLS), NUMBERS, NUMBERS, NUMBERS), min_size=20, max_size=60
)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_two_drivers_tell_one_story() -> None:
    @settings(max_examples=EXAMPLES, derandomize=True)
    @given(STORIES)
    def check(story: list[tuple[Callable[[Twins, int, int, int], None], int, int, int]]) -> None:
        twins = Twins()
        try:
            for call, *numbers in story:
                call(twins, *numbers)
        finally:
            empty_tables()

    check()
