"""Slots as rows: what is locked, and how far one statement looks. The contract has the rest."""

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
    reloaded,
    settle,
    some_jobs,
    sql,
)
from ultimate_jobs.core.records import HeldClaim, Slot, SlotAnswer, SlotRequest
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.drivers.postgres.slots import PostgresSlots
from ultimate_jobs.models import Job as JobRow, Lease

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "job:tests.ping"


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


class TestAcquire:
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


class TestStandingBy:
    def test_a_row_from_before_the_cap_was_declared_gets_its_key(self) -> None:
        a_job()
        (job,) = claim().jobs

        slots().stand_by(WORKER, [(HeldClaim(job.id, job.claim), KEY)])

        assert reloaded(job).lease_key == KEY


class TestAdmission:
    def test_a_look_goes_on_where_the_last_one_ended(self) -> None:
        for number in range(230):
            a_job(lease_key=f"job-key:tests.ping:{number:03}", blocked=True)

        first = slots().admit({"tests.ping": 1}, "")
        second = slots().admit({"tests.ping": 1}, first.last_key or "")

        assert (first.count, first.last_key) == (200, "job-key:tests.ping:199")
        assert (second.count, second.last_key) == (30, None)
