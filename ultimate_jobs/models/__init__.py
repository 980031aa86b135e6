"""The tables, as Django sees them: shape, constraints and indexes, no behaviour.

What moves a row is SQL in ``drivers/postgres/sql``; what shows one is the ORM. ``x_jobs`` is the
queue, ``x_outbox`` holds what committed transactions staged until the relay moves it there,
``x_job_steps`` what runs have done, ``x_job_events`` what they may wait for, ``x_job_leases`` the
slots of capped jobs, ``x_job_workers`` the worker processes, ``x_job_pauses`` what operators
stopped, ``x_job_counters`` what ended, by spans of time, ``x_rate_limit`` the token buckets of the
fleet, ``x_scheduler_state`` how far each task has come, ``x_scheduler_leader`` who dispatches them.
"""

from __future__ import annotations

from ultimate_jobs.models.counter import Counter
from ultimate_jobs.models.event import Event
from ultimate_jobs.models.job import Job
from ultimate_jobs.models.lease import Lease
from ultimate_jobs.models.outbox import OutboxEntry
from ultimate_jobs.models.overview import Overview
from ultimate_jobs.models.pause import Pause
from ultimate_jobs.models.rate_limit import RateLimitBucket
from ultimate_jobs.models.scheduler import SchedulerLeader, TaskState
from ultimate_jobs.models.step import JobStep
from ultimate_jobs.models.worker import Worker

__all__ = [
    "Counter",
    "Event",
    "Job",
    "JobStep",
    "Lease",
    "OutboxEntry",
    "Overview",
    "Pause",
    "RateLimitBucket",
    "SchedulerLeader",
    "TaskState",
    "Worker",
]
