"""Which jobs an operator means: one value for lists and bulk verbs, for commands and pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from ultimate_jobs.core.states import WAITING, JobState

UNSUCCESSFUL = frozenset({JobState.FAILED, JobState.DEAD, JobState.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Conditions that a job must meet, all of them; what is left out is not asked for.

    Attributes:
        ids: only these.
        states: in one of these states.
        queue, name, tenant, key: equal to this.
        related: about this object: the id of its content type and its own.
        error_like: with this text in the last error, upper and lower case alike.
        older_than, newer_than: enqueued longer ago, or not as long ago.

    """

    ids: tuple[UUID, ...] = ()
    states: tuple[JobState, ...] = ()
    queue: str | None = None
    name: str | None = None
    tenant: str | None = None
    key: str | None = None
    related: tuple[int, str] | None = None
    error_like: str | None = None
    older_than: timedelta | None = None
    newer_than: timedelta | None = None

    @property
    def is_everything(self) -> bool:
        """Whether every job meets it."""
        return not self.words()

    @property
    def waiting(self) -> bool:
        """Whether jobs that wait can meet it."""
        return not self.states or bool(WAITING & set(self.states))

    @property
    def running(self) -> bool:
        """Whether jobs that run can meet it."""
        return not self.states or JobState.RUNNING in self.states

    def words(self) -> dict[str, Any]:
        """Answer what is asked for, in plain values, for the record."""
        words: dict[str, Any] = {
            "ids": [str(job) for job in self.ids],
            "states": [state.value for state in self.states],
            "queue": self.queue,
            "name": self.name,
            "tenant": self.tenant,
            "key": self.key,
            "related": None if self.related is None else list(self.related),
            "error_like": self.error_like,
            "older_than_seconds": _seconds(self.older_than),
            "newer_than_seconds": _seconds(self.newer_than),
        }
        return {name: value for name, value in words.items() if value not in (None, [])}


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job stands in a list: its id, and when it was made, in microseconds since 1970.

    With the instant the place is known even when the job is gone.
    """

    id: UUID
    instant: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a selection is read: how many jobs at most, along which source, from where.

    ``source`` is ``created``, ``ended``, ``live``, ``key``, ``related`` or ``ids``; ``window`` bounds
    the rows looked at; with ``backwards`` the jobs before the cursor are meant, the nearest of them.
    """

    source: str
    limit: int
    window: int
    cursor: Place | None = None
    backwards: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The jobs found, newest first.

    ``seen`` counts the rows looked at, ``last`` is the last of them. ``cursor_fits`` says whether the
    cursor's job meets the selection, whatever its state; ``None``: there is no such job.
    """

    places: tuple[Place, ...]
    seen: int
    last: Place | None
    cursor_fits: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a bulk verb did: the jobs it moved, and how many of those given it could still move."""

    jobs: tuple[UUID, ...]
    remaining: int
