"""Steps in the database: written by the claim that stands, and never changed once they are completed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.builders import WORKER, a_job, reloaded
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import Fence, StepWrite
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import ClaimGone
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import Job as JobRow, JobStep

pytestmark = pytest.mark.django_db(transaction=True)

CHARGE = StepWrite(name="charge", position=0, status=StepStatus.COMPLETED, output='"ch-1"')


def fence_of(row: JobRow) -> Fence:
    return Fence(job_id=row.id, run_id=row.run_id, claim=row.claim, worker=WORKER)


others = pytest.mark.parametrize(
    "other",
    [{"claim": 1}, {"claim": 3}, {"worker": "another"}, {"job_id": new_id()}],
    ids=["an older claim", "a later claim", "another worker", "another job"],
)


@others
def test_only_the_claim_that_stands_stores_a_step(other: dict[str, Any]) -> None:
    row = a_job(JobState.RUNNING, claim=2)

    assert get_driver().steps.put(replace(fence_of(row), **other), CHARGE) is None
    assert not JobStep.objects.exists()


@pytest.mark.parametrize("state", [JobState.READY, JobState.SUSPENDED, JobState.CANCELLED])
def test_a_run_that_does_not_run_stores_no_step(state: JobState) -> None:
    row = a_job(state, claim=2, claimed_by=WORKER)

    assert get_driver().steps.put(fence_of(row), CHARGE) is None
    assert not JobStep.objects.exists()


@others
def test_only_the_claim_that_stands_ends_a_wait(other: dict[str, Any]) -> None:
    row = a_job(JobState.RUNNING, claim=2)
    JobStep.objects.create(
        run_id=row.run_id,
        name="payment",
        job_id=row.id,
        position=0,
        status=StepStatus.WAITING,
        event="paid",
        wake_at=row.created_at,
        waited_from="1:1:",
    )

    with pytest.raises(ClaimGone):
        get_driver().steps.settle_wait(replace(fence_of(row), **other), "payment")

    assert JobStep.objects.get().status == StepStatus.WAITING


@pytest.mark.parametrize("status", [StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.STARTED])
def test_a_completed_step_never_changes(status: StepStatus) -> None:
    row = a_job(JobState.RUNNING)
    steps = get_driver().steps
    steps.put(fence_of(row), CHARGE)
    before = JobStep.objects.values().get()

    again = replace(CHARGE, status=status, output='"ch-2"', attempts=2)
    assert steps.put(fence_of(row), again) is None
    assert JobStep.objects.values().get() == before
    assert reloaded(row).state == JobState.RUNNING


def test_two_jobs_of_one_run_do_not_overwrite_each_other() -> None:
    first = a_job(JobState.RUNNING)
    second = a_job(JobState.RUNNING, run_id=first.run_id)
    steps = get_driver().steps
    steps.put(fence_of(first), replace(CHARGE, status=StepStatus.FAILED, output=None))

    assert steps.put(fence_of(second), CHARGE) is None
    assert JobStep.objects.get().job_id == first.id
