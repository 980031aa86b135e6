"""Durable jobs for Django, on the PostgreSQL you already have.

Declare a job in an app's ``jobs.py``, enqueue it inside the transaction that makes it true, run
``manage.py jobs_worker --with relay``::

    @job(
        input=Checkout,
        tenant=NO_TENANT,
        idempotency_key=lambda i: f"checkout:{i.order_id}",
        retry=Retry(attempts=3),
    )
    def checkout(run: Run[Checkout]) -> None: ...


    with transaction.atomic():
        order = Order.objects.create(...)
        checkout.enqueue(Checkout(order.id))
"""

from __future__ import annotations

from ultimate_jobs.core.masking import SENSITIVE
from ultimate_jobs.core.records import Enqueued
from ultimate_jobs.core.retry import Retry, register_error_retry
from ultimate_jobs.core.settlement import Ending
from ultimate_jobs.core.spec import NO_TENANT, Concurrency
from ultimate_jobs.definitions.async_context import AsyncRun
from ultimate_jobs.definitions.context import Run, Settled
from ultimate_jobs.definitions.job import Job, job
from ultimate_jobs.definitions.task import Task, task
from ultimate_jobs.errors import JobsError, RateLimited
from ultimate_jobs.limits.rate_limit import RateLimit
from ultimate_jobs.process.cancel import CancelToken, run_to_completion
from ultimate_jobs.steps.events import apublish_event, publish_event
from ultimate_jobs.tenancy import Actor, acting_as, cross_tenant, current_actor, current_tenant

__all__ = [
    "NO_TENANT",
    "SENSITIVE",
    "Actor",
    "AsyncRun",
    "CancelToken",
    "Concurrency",
    "Ending",
    "Enqueued",
    "Job",
    "JobsError",
    "RateLimit",
    "RateLimited",
    "Retry",
    "Run",
    "Settled",
    "Task",
    "acting_as",
    "apublish_event",
    "cross_tenant",
    "current_actor",
    "current_tenant",
    "job",
    "publish_event",
    "register_error_retry",
    "run_to_completion",
    "task",
]
