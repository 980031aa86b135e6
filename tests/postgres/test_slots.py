"""Slots of capped jobs: taken by one, renewed by their holder, left once, lapsed with the lease."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from tests.builders import (
    LEASE,
    WORKER,
    a_job,
    an_ending,
    at_once,
    claim,
    presence,
    reloaded,
    settle,
    some_jobs,
    sql,
)
from ultimate_jobs.core.records import HeldClaim, Lost, Slot, SlotAnswer, SlotRequest
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.drivers.postgres.slots import PostgresSlots
from ultimate_jobs.models import Job as JobRow, Lease

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "job:tests.ping"
SECOND = timedelta(seconds=1)


def slots() -> PostgresSlots:
    found = get_driver().slots
    assert isinstance(found, PostgresSlots)
    return found


def wants(row: JobRow, key: str = KEY, cap: int = 2) -> SlotRequest:
    return SlotRequest(id=row.id, run_id=row.run_id, claim=row.claim, key=key, cap=cap)


def acquire(
    *rows: JobRow,
    cap: int = 2,
    key: str = KEY,
    worker: str = WORKER,
    lease: timedelta = LEASE,
) -> list[SlotAnswer]:
    met = slots().acquire(worker, lease, [wants(row, key, cap) for row in rows])
    return [met[row.id] for row in rows]


def numbers(answers: Sequence[SlotAnswer]) -> list[int | None]:
    return [answer.number for answer in answers]


def lapse() -> None:
    sql("UPDATE x_job_leases SET expires_at = now() - interval '1 second'")


def blocked_rows() -> int:
    return JobRow.objects.filter(blocked=True).count()


class TestAcquire:
    def test_there_are_as_many_slots_as_the_cap(self) -> None:
        rows = some_jobs(5, JobState.RUNNING)

        answers = acquire(*rows, cap=3)

        assert sorted(n for n in numbers(answers) if n is not None) == [1, 2, 3]
        assert Lease.objects.count() == 3

    def test_a_full_key_says_how_many_other_runs_hold_it(self) -> None:
        rows = some_jobs(3, JobState.RUNNING)
        acquire(*rows[:2])

        (answer,) = acquire(rows[2])

        assert answer == SlotAnswer(None, 2, raced=False)

    def test_what_an_earlier_claim_of_the_same_run_left_is_no_other_run(self) -> None:
        row = a_job(JobState.RUNNING)
        acquire(row, cap=1)
        row.claim += 1

        (answer,) = acquire(row, cap=1)

        assert answer == SlotAnswer(None, 0, raced=False)

    def test_keys_have_slots_of_their_own(self) -> None:
        one, other = some_jobs(2, JobState.RUNNING)

        assert numbers(acquire(one, cap=1, key="a")) == [1]
        assert numbers(acquire(other, cap=1, key="b")) == [1]

    def test_a_slot_that_ran_out_is_free(self) -> None:
        dead, alive = some_jobs(2, JobState.RUNNING)
        acquire(dead, cap=1)
        lapse()

        assert numbers(acquire(alive, cap=1, worker="w-2")) == [1]
        lease = Lease.objects.get()
        assert (lease.job_id, lease.worker) == (alive.id, "w-2")

    def test_a_cap_that_was_lowered_counts_the_slots_above_it(self) -> None:
        rows = some_jobs(6, JobState.RUNNING)
        acquire(*rows[:5], cap=5)
        sql("DELETE FROM x_job_leases WHERE slot <= 2")

        assert numbers(acquire(rows[5], cap=3)) == [None]
        assert numbers(acquire(rows[5], cap=4)) in ([1], [2])

    @pytest.mark.parametrize("cap", [1, 3])
    def test_claims_of_the_same_moment_never_exceed_the_cap(self, cap: int) -> None:
        rows = some_jobs(8, JobState.RUNNING)

        def racing(row: JobRow) -> list[SlotAnswer]:
            return acquire(row, cap=cap, worker=str(row.id))

        answers = [a for (a,) in at_once(*[lambda row=row: racing(row) for row in rows])]

        got = [answer for answer in answers if answer.number is not None]
        assert 1 <= len(got) <= cap
        assert Lease.objects.count() == len(got)
        assert all(a.raced or a.others >= cap for a in answers if a.number is None)


class TestRenewal:
    def beat(self, row: JobRow, slot: Slot) -> list[Lost]:
        held = HeldClaim(row.id, row.claim, slot)
        return get_driver().queue.heartbeat(presence(), [held], 2 * LEASE)

    def test_a_sign_of_life_renews_the_slot(self) -> None:
        row = a_job(JobState.RUNNING)
        acquire(row)
        before = Lease.objects.get().expires_at

        assert self.beat(row, Slot(KEY, Lease.objects.get().slot)) == []
        assert Lease.objects.get().expires_at > before + SECOND

    def test_a_slot_that_ran_out_is_lost_although_nobody_took_it(self) -> None:
        row = a_job(JobState.RUNNING)
        (answer,) = acquire(row)
        lapse()

        assert answer.number is not None
        (lost,) = self.beat(row, Slot(KEY, answer.number))
        assert lost == Lost(HeldClaim(row.id, row.claim), slot_only=True)

    def test_a_slot_that_another_run_took_is_not_renewed(self) -> None:
        row, other = some_jobs(2, JobState.RUNNING)
        acquire(row, cap=1)
        lapse()
        acquire(other, cap=1)
        before = Lease.objects.get().expires_at

        (lost,) = self.beat(row, Slot(KEY, 1))

        assert lost.slot_only
        assert Lease.objects.get().expires_at == before

    def test_a_lost_claim_is_more_than_a_lost_slot(self) -> None:
        row = a_job(JobState.RUNNING)
        acquire(row, cap=1)
        JobRow.objects.update(claim=9)

        (lost,) = self.beat(row, Slot(KEY, 1))

        assert not lost.slot_only


class TestLeaving:
    def ending(self, row: JobRow, number: int = 1) -> None:
        ended = an_ending(row)
        settle(
            type(ended)(
                id=ended.id,
                claim=ended.claim,
                settlement=ended.settlement,
                seconds=0,
                slot=Slot(KEY, number),
            )
        )

    def test_a_settlement_leaves_the_slot(self) -> None:
        row = a_job(JobState.RUNNING)
        acquire(row, cap=1)

        self.ending(row)

        assert not Lease.objects.exists()

    def test_a_late_ending_does_not_give_back_what_a_newer_run_holds(self) -> None:
        late, newer = some_jobs(2, JobState.RUNNING)
        acquire(late, cap=1)
        lapse()
        acquire(newer, cap=1)

        self.ending(late)

        assert Lease.objects.get().job_id == newer.id

    def test_a_later_claim_of_the_same_row_keeps_its_slot(self) -> None:
        row = a_job(JobState.RUNNING)
        again = JobRow.objects.get(id=row.id)
        again.claim += 1
        acquire(again, cap=1)

        self.ending(row)

        assert Lease.objects.get().claim == again.claim

    def test_as_many_rows_that_stand_by_come_forward_in_the_order_of_the_claim(self) -> None:
        holder = a_job(JobState.RUNNING)
        acquire(holder, cap=1)
        some_jobs(3, lease_key=KEY, blocked=True)
        urgent = a_job(lease_key=KEY, blocked=True, priority=5)
        some_jobs(2, lease_key="job:another", blocked=True)

        self.ending(holder)

        assert blocked_rows() == 5
        assert not reloaded(urgent).blocked


class TestStandingBy:
    def test_a_claim_without_a_slot_is_handed_back_uncounted_and_claimed_no_more(self) -> None:
        a_job(lease_key=KEY)
        (job,) = claim().jobs

        slots().stand_by(WORKER, [(HeldClaim(job.id, job.claim), KEY)])

        row = reloaded(job)
        assert (row.state, row.attempt, row.blocked, row.claimed_by) == ("ready", 0, True, None)
        assert row.last_error is None
        assert claim().jobs == []

    def test_due_rows_of_the_key_stand_by_with_it_and_others_do_not(self) -> None:
        (job,) = [a_job(lease_key=KEY)]
        (held,) = claim().jobs
        behind = some_jobs(3, lease_key=KEY)
        later = a_job(lease_key=KEY, state=JobState.DELAYED, due_in=SECOND * 3600)
        other = a_job(lease_key="job:another")

        slots().stand_by(WORKER, [(HeldClaim(held.id, held.claim), KEY)])

        assert [reloaded(row).blocked for row in (job, *behind)] == [True] * 4
        assert [reloaded(row).blocked for row in (later, other)] == [False] * 2

    def test_a_row_from_before_the_cap_was_declared_gets_its_key(self) -> None:
        a_job()
        (job,) = claim().jobs

        slots().stand_by(WORKER, [(HeldClaim(job.id, job.claim), KEY)])

        assert reloaded(job).lease_key == KEY

    def test_a_claim_that_was_lost_is_not_handed_back(self) -> None:
        row = a_job(JobState.RUNNING)

        slots().stand_by(WORKER, [(HeldClaim(row.id, row.claim + 1), KEY)])

        assert reloaded(row).state == "running"


class TestAdmission:
    def test_rows_come_forward_when_the_holder_died(self) -> None:
        holder = a_job(JobState.RUNNING)
        acquire(holder, cap=2)
        rows = some_jobs(4, lease_key=KEY, blocked=True)

        assert slots().admit({rows[0].name: 2}, "").count == 1
        lapse()
        JobRow.objects.filter(blocked=False, state="ready").update(blocked=True)
        admitted = slots().admit({rows[0].name: 2}, "")

        assert (admitted.count, admitted.standing_by) == (2, True)
        assert blocked_rows() == 2

    def test_nothing_comes_forward_while_a_row_of_the_key_may_be_claimed(self) -> None:
        rows = some_jobs(4, lease_key=KEY, blocked=True)
        a_job(lease_key=KEY)

        assert slots().admit({rows[0].name: 2}, "").count == 0

    def test_a_full_key_keeps_its_rows(self) -> None:
        acquire(*some_jobs(2, JobState.RUNNING))
        rows = some_jobs(3, lease_key=KEY, blocked=True)

        assert slots().admit({rows[0].name: 2}, "").count == 0

    def test_rows_of_names_that_this_process_does_not_know_are_left(self) -> None:
        some_jobs(3, lease_key=KEY, blocked=True, name="tests.unknown")

        assert slots().admit({"tests.ping": 1}, "").count == 0

    def test_a_look_goes_on_where_the_last_one_ended(self) -> None:
        for number in range(230):
            a_job(lease_key=f"job-key:tests.ping:{number:03}", blocked=True)

        first = slots().admit({"tests.ping": 1}, "")
        second = slots().admit({"tests.ping": 1}, first.last_key or "")

        assert (first.count, first.last_key) == (200, "job-key:tests.ping:199")
        assert (second.count, second.last_key) == (30, None)

    def test_two_looks_of_the_same_moment_admit_each_row_once(self) -> None:
        rows = some_jobs(6, lease_key=KEY, blocked=True)

        answers = at_once(*[lambda: slots().admit({rows[0].name: 3}, "")] * 2)

        free = JobRow.objects.filter(blocked=False).count()
        assert sum(answer.count for answer in answers) == free >= 3
