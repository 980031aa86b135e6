"""Slots, which the runs of capped jobs share, and the jobs that stand by for one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from ultimate_jobs.core.records import (
    Admitted,
    ClaimedJob,
    HeldClaim,
    Lost,
    Slot,
    SlotAnswer,
    SlotRequest,
)
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import Part, Slots
from ultimate_jobs.errors import DriverLacks
from ultimate_jobs.testing.conformance.scene import (
    DAY,
    HOUR,
    JOB,
    LEASE,
    WORKER,
    Scene,
    Suite,
)

KEY = "job:conformance"


class SlotSuite(Suite, needs={Part.SLOTS}):
    """Tests of a driver that has slots."""

    def slots(self, scene: Scene) -> Slots:
        found = scene.driver.slots
        if found is None:
            raise DriverLacks("The driver has no slots, and does not say so.")
        return found

    def runs(self, scene: Scene, count: int, key: str = KEY) -> Sequence[ClaimedJob]:
        scene.enqueue(*(f"{key} {number}" for number in range(count)), lease_key=key)
        return scene.claim().jobs

    def acquire(
        self,
        scene: Scene,
        *jobs: ClaimedJob,
        cap: int = 2,
        key: str = KEY,
        worker: str = WORKER,
        lease: timedelta = LEASE,
    ) -> list[SlotAnswer]:
        requests = [
            SlotRequest(id=job.id, run_id=job.run_id, claim=job.claim, key=key, cap=cap)
            for job in jobs
        ]
        answers = self.slots(scene).acquire(worker, lease, requests)
        return [answers[job.id] for job in jobs]

    def slot(self, scene: Scene, job: ClaimedJob, *, cap: int = 1) -> Slot:
        """Take a slot that is free."""
        (answer,) = self.acquire(scene, job, cap=cap)
        assert answer.number is not None
        return Slot(KEY, answer.number)

    def stand_by(self, scene: Scene, job: ClaimedJob, key: str = KEY) -> None:
        self.slots(scene).stand_by(WORKER, [(HeldClaim(job.id, job.claim), key)])

    def admit(self, scene: Scene, cap: int = 1, after: str = "", name: str = JOB) -> Admitted:
        return self.slots(scene).admit({name: cap}, after)


class TestAcquiring(SlotSuite):
    def test_there_are_as_many_slots_as_the_cap(self, scene: Scene) -> None:
        answers = self.acquire(scene, *self.runs(scene, 5), cap=3)

        numbers = [answer.number for answer in answers]
        assert sorted(number for number in numbers if number is not None) == [1, 2, 3]

    def test_a_full_key_says_how_many_other_runs_hold_it(self, scene: Scene) -> None:
        *holders, late = self.runs(scene, 3)
        self.acquire(scene, *holders)

        assert self.acquire(scene, late) == [SlotAnswer(None, 2, raced=False)]

    def test_what_an_earlier_claim_of_the_same_run_left_is_no_other_run(self, scene: Scene) -> None:
        (job,) = self.runs(scene, 1)
        self.slot(scene, job)
        scene.settle(job, JobState.READY)

        assert self.acquire(scene, scene.take(), cap=1) == [SlotAnswer(None, 0, raced=False)]

    def test_keys_have_slots_of_their_own(self, scene: Scene) -> None:
        one, other = self.runs(scene, 2)

        answers = self.acquire(scene, one, cap=1, key="a") + self.acquire(
            scene, other, cap=1, key="b"
        )

        assert [answer.number for answer in answers] == [1, 1]

    def test_a_slot_that_ran_out_is_free(self, scene: Scene) -> None:
        dead, alive = self.runs(scene, 2)
        self.slot(scene, dead)
        scene.lapse()

        assert self.slot(scene, alive).number == 1

    def test_a_cap_that_was_lowered_counts_the_slots_above_it(self, scene: Scene) -> None:
        *holders, late = self.runs(scene, 4)
        self.acquire(scene, *holders, cap=3)

        assert self.acquire(scene, late, cap=2) == [SlotAnswer(None, 3, raced=False)]

    def test_a_cap_that_was_raised_has_more(self, scene: Scene) -> None:
        *holders, late = self.runs(scene, 3)
        self.acquire(scene, *holders, cap=2)

        (answer,) = self.acquire(scene, late, cap=3)

        assert answer.number == 3

    @pytest.mark.parametrize("cap", [1, 3])
    def test_claims_of_the_same_moment_never_exceed_the_cap(self, scene: Scene, cap: int) -> None:
        jobs = self.runs(scene, 6)

        def racing(job: ClaimedJob) -> SlotAnswer:
            return self.acquire(scene, job, cap=cap, worker=str(job.id))[0]

        answers = scene.at_once(*[lambda job=job: racing(job) for job in jobs])

        got = [answer.number for answer in answers if answer.number is not None]
        assert 1 <= len(set(got)) == len(got) <= cap
        assert all(answer.raced or answer.others >= cap for answer in answers if not answer.number)


class TestKeepingSlots(SlotSuite):
    def beat(self, scene: Scene, job: ClaimedJob, slot: Slot) -> list[Lost]:
        return scene.beat(HeldClaim(job.id, job.claim, slot))

    def test_a_sign_of_life_keeps_them(self, scene: Scene) -> None:
        job, late = self.runs(scene, 2)
        slot = self.slot(scene, job)
        scene.clock.advance(LEASE / 2)
        assert self.beat(scene, job, slot) == []
        scene.clock.advance(LEASE * 0.75)

        assert self.acquire(scene, late, cap=1) == [SlotAnswer(None, 1, raced=False)]

    def test_one_that_ran_out_is_lost_although_nobody_took_it(self, scene: Scene) -> None:
        (job,) = self.runs(scene, 1)
        slot = self.slot(scene, job)
        scene.lapse()

        assert self.beat(scene, job, slot) == [Lost(HeldClaim(job.id, job.claim), slot_only=True)]

    def test_one_that_another_run_took_stays_with_it(self, scene: Scene) -> None:
        job, other = self.runs(scene, 2)
        slot = self.slot(scene, job)
        scene.lapse()
        taken = self.slot(scene, other)

        lost = scene.beat(
            HeldClaim(job.id, job.claim, slot), HeldClaim(other.id, other.claim, taken)
        )

        assert lost == [Lost(HeldClaim(job.id, job.claim), slot_only=True)]

    def test_a_lost_claim_is_more_than_a_lost_slot(self, scene: Scene) -> None:
        (job,) = self.runs(scene, 1)
        slot = self.slot(scene, job)
        scene.settle(job)

        (lost,) = self.beat(scene, job, slot)

        assert not lost.slot_only


class TestLeavingSlots(SlotSuite):
    def test_an_ending_leaves_its_slot(self, scene: Scene) -> None:
        job, next_one = self.runs(scene, 2)
        scene.settle(job, slot=self.slot(scene, job))

        assert self.slot(scene, next_one).number == 1

    def test_an_ending_whose_claim_is_lost_leaves_it_too(self, scene: Scene) -> None:
        job, next_one = self.runs(scene, 2)
        slot = self.slot(scene, job)
        scene.driver.queue.disown(WORKER, [HeldClaim(job.id, job.claim)])

        assert not scene.settle(job, slot=slot)

        assert self.slot(scene, next_one).number == 1

    def test_a_late_one_does_not_give_back_what_a_newer_run_holds(self, scene: Scene) -> None:
        late, newer, third = self.runs(scene, 3)
        slot = self.slot(scene, late)
        scene.lapse()
        self.slot(scene, newer)

        scene.settle(late, slot=slot)

        assert self.acquire(scene, third, cap=1) == [SlotAnswer(None, 1, raced=False)]

    def test_as_many_that_stand_by_come_forward_in_the_order_of_the_claim(
        self, scene: Scene
    ) -> None:
        holder, first = self.runs(scene, 2)
        slot = self.slot(scene, holder)
        (urgent,) = scene.enqueue("urgent", lease_key=KEY, priority=5)
        self.stand_by(scene, first)
        assert scene.claimed() == []

        scene.settle(holder, slot=slot)

        assert scene.claimed() == [urgent.id]


class TestStandingBy(SlotSuite):
    def test_a_claim_without_a_slot_is_handed_back_uncounted_and_claimed_no_more(
        self, scene: Scene
    ) -> None:
        (job,) = self.runs(scene, 1)

        self.stand_by(scene, job)

        assert scene.claimed() == []
        assert scene.holds_its_key(f"{KEY} 0")
        assert self.admit(scene).count == 1
        again = scene.take()
        assert (again.id, again.attempt) == (job.id, 1)

    def test_others_of_the_key_that_are_due_stand_by_with_it(self, scene: Scene) -> None:
        (job,) = self.runs(scene, 1)
        scene.enqueue("behind", lease_key=KEY)
        (later,) = scene.enqueue("later", lease_key=KEY, delay=HOUR)
        (other,) = scene.enqueue("other", lease_key="job:another")

        self.stand_by(scene, job)

        assert scene.claimed() == [other.id]
        scene.clock.advance(HOUR)
        assert scene.claimed(reap=False) == [later.id]

    def test_one_that_was_enqueued_before_there_was_a_cap_gets_its_key(self, scene: Scene) -> None:
        job = scene.running()
        self.stand_by(scene, job)

        assert self.admit(scene).count == 1

    def test_a_claim_that_was_lost_is_not_handed_back(self, scene: Scene) -> None:
        (job,) = self.runs(scene, 1)

        self.slots(scene).stand_by(WORKER, [(HeldClaim(job.id, job.claim + 1), KEY)])

        assert scene.settle(job)


class TestAdmission(SlotSuite):
    def standing_by(self, scene: Scene, count: int, key: str = KEY) -> None:
        jobs = self.runs(scene, count, key)
        for job in jobs:
            self.stand_by(scene, job, key)

    def test_nothing_stands_by(self, scene: Scene) -> None:
        assert self.admit(scene) == Admitted(None, standing_by=False, count=0)

    def test_jobs_come_forward_when_the_holder_died(self, scene: Scene) -> None:
        (holder,) = self.runs(scene, 1)
        self.acquire(scene, holder, lease=LEASE)
        scene.beat(HeldClaim(holder.id, holder.claim), lease=DAY)
        self.standing_by(scene, 3, KEY)
        assert self.admit(scene) == Admitted(None, standing_by=True, count=0)

        scene.lapse()

        assert self.admit(scene, cap=2) == Admitted(None, standing_by=True, count=2)
        assert len(scene.claimed()) == 2

    def test_nothing_comes_forward_while_another_of_the_key_may_be_claimed(
        self, scene: Scene
    ) -> None:
        self.standing_by(scene, 2)
        scene.enqueue("first", lease_key=KEY)

        assert self.admit(scene, cap=2).count == 0

    def test_a_full_key_keeps_its_jobs(self, scene: Scene) -> None:
        (holder,) = self.runs(scene, 1)
        self.slot(scene, holder)
        self.standing_by(scene, 2, KEY)

        assert self.admit(scene) == Admitted(None, standing_by=True, count=0)

    def test_jobs_of_names_that_nobody_gave_a_cap_are_left(self, scene: Scene) -> None:
        self.standing_by(scene, 2)

        assert self.admit(scene, name="conformance.another").count == 0

    def test_a_look_goes_on_where_the_last_one_ended(self, scene: Scene) -> None:
        for number in range(3):
            self.standing_by(scene, 1, f"key:{number}")

        assert self.admit(scene, after="key:0").count == 2
        assert self.admit(scene).count == 1

    def test_looks_at_one_moment_admit_each_job_once(self, scene: Scene) -> None:
        self.standing_by(scene, 4)

        answers = scene.at_once(*[lambda: self.admit(scene, cap=2)] * 3)

        assert 2 <= sum(answer.count for answer in answers) == len(scene.claimed())
