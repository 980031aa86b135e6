"""What became of a run, as a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ultimate_jobs.conf import get_settings
from ultimate_jobs.errors import JobUnknown
from ultimate_jobs.models import Job, JobStep, OutboxEntry
from ultimate_jobs.testing.rows import STAGED
from ultimate_jobs.testing.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """One step of a run."""

    executions: int
    """How often its function was called, over the whole test."""
    status: str | None
    """What is stored of it; ``None``: nothing is, it only ran."""
    output: Any = None
    error: str | None = None


class Steps(Mapping[str, StepTrace]):
    """The steps of a run by their names, in the order in which it came to them."""

    def __init__(self, found: Mapping[str, StepTrace]) -> None:
        self._found = found

    def __getitem__(self, name: str) -> StepTrace:
        try:
            return self._found[name]
        except KeyError:
            known = ", ".join(f"'{one}'" for one in self._found) or "none"
            raise KeyError(
                f"The run has not come to a step '{name}'. Its steps: {known}."
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return repr(dict(self._found))


class Trace:
    """A run, as it stands whenever it is asked: kept over several drains, it tells what is new.

    Args:
        job: the id of the job.
        watch: what was seen of its runs.

    """

    def __init__(self, job: UUID, watch: Watch) -> None:
        self.id = job
        self._watch = watch

    def __repr__(self) -> str:
        return f"<trace of {self.name} {self.id}: {self.state}>"

    @property
    def name(self) -> str:
        """The job's name."""
        return self._row().name

    @property
    def run_id(self) -> UUID:
        """The run that the steps belong to."""
        return self._row().run_id

    @property
    def state(self) -> str:
        """``staged``, or the state of the job."""
        row = self._row()
        return STAGED if isinstance(row, OutboxEntry) else str(row.state)

    @property
    def attempt(self) -> int:
        """How many attempts have begun."""
        row = self._row()
        return 0 if isinstance(row, OutboxEntry) else row.attempt

    @property
    def result(self) -> Any:
        """What the body returned, in its stored form."""
        row = self._row()
        return None if isinstance(row, OutboxEntry) else row.result

    @property
    def error(self) -> str | None:
        """What is stored of the last failure."""
        return self._row().last_error

    @property
    def exception(self) -> BaseException | None:
        """What the last attempt of this test raised."""
        return self._watch.raised.get(self.id)

    @property
    def steps(self) -> Steps:
        """The steps that the run has come to, sleeps and waits among them."""
        rows = JobStep.objects.using(get_settings().database).filter(job_id=self.id)
        stored = {row.name: row for row in rows.order_by("position")}
        ran = self._watch.executions_of(self.id)
        found: dict[str, StepTrace] = {}
        for name in {**stored, **ran}:
            row = stored.get(name)
            found[name] = StepTrace(
                executions=ran.get(name, 0),
                status=None if row is None else row.status,
                output=None if row is None else row.output,
                error=None if row is None else row.error,
            )
        return Steps(found)

    def _row(self) -> Job | OutboxEntry:
        using = get_settings().database
        found = Job.objects.using(using).filter(id=self.id).first()
        row = found or OutboxEntry.objects.using(using).filter(id=self.id).first()
        if row is None:
            raise JobUnknown(f"There is no job {self.id} any more.")
        return row
