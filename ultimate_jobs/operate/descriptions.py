"""What the jobs of this project declare."""

from __future__ import annotations

import difflib
from typing import Any

from ultimate_jobs.definitions.job import Job
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.errors import JobNameUnknown

MOST_WAITS = 100


def describe_jobs() -> list[dict[str, Any]]:
    """Answer every declaration, by name."""
    return [_described(job) for job in registry]


def describe_job(name: str) -> dict[str, Any]:
    """Answer one declaration.

    Raises:
        JobNameUnknown: no job has this name here.

    """
    found = registry.get(name)
    if found is None:
        near = difflib.get_close_matches(name, registry.names(), n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise JobNameUnknown(f"No job is declared under this name.{hint}")
    return _described(found)


def _described(job: Job[Any, Any]) -> dict[str, Any]:
    waits = job.retry.schedule(min(job.retry.attempts, MOST_WAITS))
    return {
        **job.describe(),
        "retry": {
            "attempts": job.retry.attempts,
            "backoff": job.retry.backoff,
            "delays": [wait.total_seconds() for wait in waits],
            "jitter": job.retry.jitter,
            "dead_letter": job.retry.dead_letter,
        },
        "max_attempts": job.spec.max_attempts,
        "timeout_seconds": None if job.timeout is None else job.timeout.total_seconds(),
        "compensates": job.compensates,
        "module": job.spec.body.__module__,
        "doc": (job.spec.body.__doc__ or "").strip().partition("\n")[0] or None,
    }
