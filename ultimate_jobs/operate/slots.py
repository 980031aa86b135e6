"""Where a capped job stands: which slot its run occupies, or that it stands by for one."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.states import WAITING
from ultimate_jobs.models import Job, Lease
from ultimate_jobs.operate.inspection import iso
from ultimate_jobs.operate.search import job_uuid
from ultimate_jobs.process.clock import database_now


def slot_of(job_id: str) -> dict[str, Any] | None:
    """Answer the slot of a capped job, in one statement; ``None``: it has none and wants none.

    ``stands_by`` says that it waits until a run of the same job, or of the same key, leaves one;
    otherwise ``slot`` is the one that its run occupies, from 1 to the cap, at least until ``until``.

    Raises:
        JobUnknown: no job can have this id.

    """
    held = Lease.objects.filter(
        lease_key=OuterRef("lease_key"),
        job_id=OuterRef("id"),
        claim=OuterRef("claim"),
        expires_at__gt=database_now(),
    )
    jobs: QuerySet[Job] = Job.objects.using(get_settings().database)
    found = (
        jobs.filter(id=job_uuid(job_id), lease_key__isnull=False)
        .annotate(
            slot=Subquery(held.values("slot")[:1]), until=Subquery(held.values("expires_at")[:1])
        )
        .values("state", "blocked", "slot", "until")
        .first()
    )
    if found is None:
        return None
    stands_by = found["blocked"] and found["state"] in WAITING
    if not stands_by and found["slot"] is None:
        return None
    return {"stands_by": stands_by, "slot": found["slot"], "until": iso(found["until"])}
