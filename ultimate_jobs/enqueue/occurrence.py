"""From an occurrence of a task to rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from ultimate_jobs.core.records import Batch
from ultimate_jobs.core.spec import JobSpec
from ultimate_jobs.enqueue.options import Options
from ultimate_jobs.enqueue.record import prepare

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Handle(Protocol):
    """A job, as an entry names it."""

    @property
    def spec(self) -> JobSpec:
        """What was declared."""


class Occurring(Protocol):
    """What has occurrences: a task."""

    @property
    def name(self) -> str:
        """The durable name."""

    def entries(self, occurrence: datetime, /) -> Sequence[tuple[Handle, Any]]:
        """Answer the jobs of an occurrence with their inputs."""


def prepare_occurrence(task: Occurring, occurrence: datetime) -> list[Batch]:
    """Turn an occurrence into rows: a batch for each job, in the order in which they come.

    Every key is the job's own behind the task's name and the occurrence in milliseconds, so that
    an occurrence is never deduplicated onto another one. ``run_at`` is the occurrence.

    Raises:
        RefusedError, DeclarationInvalid: an entry is wrong; nothing has been written.
        Exception: whatever the task's function raises.

    """
    milliseconds = (occurrence - _EPOCH) // _MILLISECOND
    options = Options(run_at=occurrence, key_prefix=f"{task.name}:{milliseconds}:")
    values: dict[str, tuple[JobSpec, list[Any]]] = {}
    for job, value in task.entries(occurrence):
        values.setdefault(job.spec.name, (job.spec, []))[1].append(value)
    return [prepare(spec, inputs, options).batch for spec, inputs in values.values()]
