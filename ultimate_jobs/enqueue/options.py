"""What a caller may say about an enqueue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict
from uuid import UUID

from django.db.models import Model

from ultimate_jobs.core.durations import Duration
from ultimate_jobs.tenancy import Actor

OnConflict = Literal["dedupe", "error"]


class EnqueueAsOptions(TypedDict, total=False):
    """Keywords of an enqueue whose actor is given."""

    delay: Duration | None
    run_at: datetime | None
    priority: int
    queue: str | None
    run_id: UUID | str | None
    traceparent: str | None
    related: Model | None
    outbox: bool
    on_conflict: OnConflict
    using: str | None


class EnqueueOptions(EnqueueAsOptions, total=False):
    """Keywords of an enqueue."""

    tenant: str | None
    enqueued_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of one enqueue, or of one batch; ``definitions.job.Job.enqueue`` documents them.

    ``key_prefix`` stands before every idempotency key; an occurrence of a task has one.
    """

    delay: Duration | None = None
    run_at: datetime | None = None
    priority: int = 0
    queue: str | None = None
    run_id: UUID | str | None = None
    tenant: str | None = None
    enqueued_by: str | None = None
    traceparent: str | None = None
    related: Model | None = None
    outbox: bool = True
    on_conflict: OnConflict = "dedupe"
    using: str | None = None
    actor: Actor | None = None
    as_actor: bool = False
    key_prefix: str = ""
