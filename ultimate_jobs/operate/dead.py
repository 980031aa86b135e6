"""Dead letters: what failed for good, what it has in common, and the line that retries it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from ultimate_jobs.core.selection import Selection
from ultimate_jobs.core.signature import constant_part, signature
from ultimate_jobs.core.states import JobState
from ultimate_jobs.operate.inspection import (
    MAX_JOB_PAGE,
    errors_of,
    listed,
    newest_errors,
)
from ultimate_jobs.operate.search import search

GROUP_WINDOW = 1_000
"""The newest dead jobs that are grouped."""


def dead_letters(queue: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
    """Answer the newest dead jobs, each with the line that retries it."""
    found = search(_dead(queue), limit=min(limit, MAX_JOB_PAGE))
    return [dead_letter(job) for job in listed(found.ids)]


def dead_letter(job: dict[str, Any]) -> dict[str, Any]:
    """Answer what is shown of a listed job that is dead."""
    return {
        "id": job["id"],
        "name": job["name"],
        "queue": job["queue"],
        "attempt": job["attempt"],
        "last_error": job["last_error"],
        "failed_at": job["updated_at"],
        "signature": signature(job["last_error"]),
        "retry": f"manage.py jobs retry {job['id']}",
    }


def commonest_errors(limit: int = 5) -> list[dict[str, Any]]:
    """Answer the largest groups of the jobs that died lately, in one statement.

    They are among the newest 1,000 that ended badly; ``dead_groups`` looks further.
    """
    return _groups(newest_errors(JobState.DEAD, GROUP_WINDOW))[:limit]


def dead_groups(queue: str | None = None) -> dict[str, Any]:
    """Group the newest dead jobs by job and by error, the largest group first.

    With ``complete`` false there are older dead jobs that are in no group.
    """
    found = search(_dead(queue), limit=GROUP_WINDOW)
    return {
        "groups": _groups(errors_of(found.ids)),
        "searched": found.searched,
        "complete": found.complete and found.older is None,
    }


def _groups(dead: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for job in dead:
        key = (job["name"], job["queue"], signature(job["last_error"]))
        groups.setdefault(key, []).append(job)
    shown = [_group(*key, jobs) for key, jobs in groups.items()]
    return sorted(shown, key=lambda group: (-group["count"], group["name"]))


def _group(name: str, queue: str, signed: str, jobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    instants = sorted(job["updated_at"] for job in jobs)
    return {
        "signature": signed,
        "name": name,
        "queue": queue,
        "count": len(jobs),
        "oldest": instants[0],
        "newest": instants[-1],
        "example": jobs[0]["id"],
        "retry": retry_line(name, queue, constant_part(signed)),
    }


def retry_line(name: str, queue: str, error_like: str | None) -> str:
    """Write the command that retries the dead jobs of a name and a queue with a text in the error."""
    words = ["manage.py", "jobs", "retry", "--state", "dead", "--name", name, "--queue", queue]
    words += [] if error_like is None else ["--error-like", error_like]
    return _line(words)


def _line(words: Iterable[str]) -> str:
    return " ".join(shlex.quote(word) for word in words)


def _dead(queue: str | None) -> Selection:
    return Selection(states=(JobState.DEAD,), queue=queue)
