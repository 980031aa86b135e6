"""How many bodies could be busy: what may be claimed, and what runs."""

from __future__ import annotations

from datetime import timedelta

import pytest
import yaml

from testproject.postgres.server import ROOT
from tests.builders import a_job, sql
from tests.commands.manage import manage
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.operate.overview import queue_demand
from ultimate_jobs.operate.pauses import pause_queue

pytestmark = pytest.mark.django_db

LATER = timedelta(hours=1)


def test_what_may_be_claimed_and_what_runs_is_counted() -> None:
    for state in (JobState.READY, JobState.RUNNING, JobState.DELAYED, JobState.SUSPENDED):
        a_job(state, queue="mail")
    a_job(JobState.READY, queue="other", priority=5)
    a_job(JobState.READY, queue="other", priority=-5)

    assert queue_demand() == {"queues": {"mail": 4, "other": 2}, "demand": 6}


def test_what_nobody_can_claim_now_asks_for_no_worker() -> None:
    a_job(JobState.DELAYED, due_in=LATER)
    a_job(JobState.SUSPENDED, due_in=LATER)
    a_job(JobState.READY, blocked=True, lease_key="k")
    for state in (JobState.DONE, JobState.DEAD, JobState.FAILED, JobState.CANCELLED):
        a_job(state)

    assert queue_demand() == {"queues": {}, "demand": 0}


def test_a_paused_queue_asks_only_for_what_runs() -> None:
    a_job(JobState.READY)
    a_job(JobState.RUNNING)
    pause_queue("default")

    assert queue_demand(["default"])["demand"] == 1


def test_jobs_due_later_hide_none_that_are_due_however_urgent_they_are() -> None:
    for _ in range(3):
        a_job(JobState.DELAYED, priority=9, due_in=LATER)
    a_job(JobState.READY, priority=1)

    assert get_driver().operator.demand(2) == {"default": 1}


def test_each_count_ends_at_the_cap() -> None:
    for priority in range(4):
        a_job(JobState.READY, priority=priority)
        a_job(JobState.RUNNING)

    assert get_driver().operator.demand(3) == {"default": 6}


def test_a_queue_that_is_asked_for_is_answered_also_when_it_is_empty() -> None:
    a_job(JobState.READY, queue="mail")

    assert queue_demand(["idle"]) == {"queues": {"idle": 0}, "demand": 0}


def test_the_verb_answers_one_document() -> None:
    a_job(JobState.READY)

    answer = manage("jobs", "demand", "--queue", "default,idle", "--json")

    assert answer.document == {"queues": {"default": 1, "idle": 0}, "demand": 1}


def test_the_autoscaler_counts_alike() -> None:
    a_job(JobState.READY, priority=3)
    a_job(JobState.SUSPENDED)
    a_job(JobState.RUNNING)
    a_job(JobState.DELAYED, priority=7, due_in=LATER)
    a_job(JobState.READY, queue="mail")
    manifest = yaml.safe_load((ROOT / "deploy/kubernetes/keda.yaml").read_text(encoding="utf-8"))
    (trigger,) = manifest["spec"]["triggers"]

    ((counted,),) = sql(trigger["metadata"]["query"])

    assert counted == queue_demand(["default"])["demand"] == 3
