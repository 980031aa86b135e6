"""``@task``: a schedule that enqueues jobs, and the handle it answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeAlias, cast, final, get_args, overload

from ultimate_jobs.core.catchup import DEFAULT_MAX_CATCH_UP, MOST_CATCH_UP, CatchUp
from ultimate_jobs.core.cron import Schedule
from ultimate_jobs.core.records import Enqueued
from ultimate_jobs.core.spec import checked_name
from ultimate_jobs.definitions.job import Job
from ultimate_jobs.definitions.registry import default_name, tasks
from ultimate_jobs.enqueue import facade
from ultimate_jobs.enqueue.options import Options
from ultimate_jobs.errors import DeclarationInvalid, EnqueueBatchTooLarge, InvariantError
from ultimate_jobs.process import clock

Entries: TypeAlias = Iterable[tuple[Job[Any, Any], Any]]
"""Jobs, each with an input to enqueue."""
EntriesOf: TypeAlias = Callable[[datetime], Entries]


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A declared task. Only ``task`` makes one; every operation on it is a method here.

    The scheduler does what ``entries`` answers, at each occurrence. A task has no body, no retry
    and no timeout of its own: those are its jobs'.
    """

    kind: ClassVar[str] = "task"

    name: str
    schedule: Schedule
    function: EntriesOf
    catch_up: CatchUp
    max_catch_up: int

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    @property
    def cron(self) -> str:
        """The cron expression."""
        return self.schedule.expression

    @property
    def tz(self) -> str:
        """The name of the time zone it is read in."""
        return self.schedule.zone

    def entries(self, occurrence: datetime | None = None) -> Sequence[tuple[Job[Any, Any], Any]]:
        """Answer exactly what an occurrence enqueues; nothing is written.

        Args:
            occurrence: the instant to build the entries for; now by default. The function gets it
                in UTC.

        Raises:
            InvariantError: the instant has no zone, or the function answers something else.
            EnqueueBatchTooLarge: it answers more than 10,000 entries.
            Exception: whatever the function raises.

        """
        found: object = self.function(_instant(occurrence))
        if not isinstance(found, Iterable):
            raise self._no_entries()
        entries = list(found)
        if not all(_is_entry(entry) for entry in entries):
            raise self._no_entries()
        if len(entries) > facade.MAX_ENQUEUE_BATCH:
            raise EnqueueBatchTooLarge(
                f"'{self.name}': {len(entries):,} entries in one occurrence; the limit is "
                f"{facade.MAX_ENQUEUE_BATCH:,}.",
                fix="Enqueue one job that enqueues the others.",
            )
        return entries

    def enqueue(self, occurrence: datetime | None = None) -> list[Enqueued]:
        """Enqueue the entries now, in the caller's transaction if there is one.

        The jobs have their plain keys, so that live ones are deduplicated; an occurrence that the
        scheduler fires has keys of its own, and is not affected.

        Args:
            occurrence: the instant to build the entries for; now by default.

        Raises:
            RefusedError: an entry is wrong; nothing was written.
            DriverUnavailable: the database did not answer.
            Exception: as ``entries``.

        """
        pairs = [(job.spec, value) for job, value in self.entries(occurrence)]
        return facade.enqueue_each(pairs, Options())

    def next_run(self, after: datetime | None = None) -> datetime:
        """Answer the first occurrence later than an instant, now by default; in UTC.

        Raises:
            InvariantError: the instant has no zone, or nothing comes before the year 10000.

        """
        return self.schedule.next_after(_instant(after))

    def describe(self) -> dict[str, Any]:
        """Answer the manifest entry: plain values, no application data, never an error.

        ``jobs`` are the names that the next occurrence enqueues, in the order of its entries; none
        when the entries cannot be built.
        """
        return {
            "kind": self.kind,
            "name": self.name,
            "cron": self.cron,
            "tz": self.tz,
            "catch_up": self.catch_up,
            "max_catch_up": self.max_catch_up,
            "jobs": self._job_names(),
        }

    def _job_names(self) -> list[str]:
        try:
            entries = self.entries(self.next_run())
        except Exception:  # noqa: BLE001 - what cannot be built is described without its jobs
            return []
        return list(dict.fromkeys(job.name for job, _ in entries))

    def _no_entries(self) -> InvariantError:
        return InvariantError(
            f"'{self.name}' does not answer a list of pairs of a job and an input.",
            fix="Return [(job, Input(...)), ...] from the function of the task.",
        )


@overload
def task(
    *,
    cron: str,
    tz: str,
    enqueue: EntriesOf,
    name: str | None = None,
    catch_up: CatchUp = "skip",
    max_catch_up: int = DEFAULT_MAX_CATCH_UP,
) -> Task: ...


@overload
def task(
    *,
    cron: str,
    tz: str,
    name: str | None = None,
    catch_up: CatchUp = "skip",
    max_catch_up: int = DEFAULT_MAX_CATCH_UP,
) -> Callable[[EntriesOf], Task]: ...


def task(
    *,
    cron: Any = None,
    tz: Any = None,
    enqueue: Any = None,
    name: str | None = None,
    catch_up: Any = "skip",
    max_catch_up: Any = DEFAULT_MAX_CATCH_UP,
) -> Any:
    """Declare what is enqueued when: over the function below, or over ``enqueue``.

    Args:
        cron: five fields, minute hour day-of-month month day-of-week, on the clock of ``tz``.
        tz: the IANA name of a time zone.
        enqueue: answers the jobs of an occurrence with their inputs, given its instant in UTC;
            without it, ``task`` decorates a function that does.
        name: the durable name; ``<app_label>.<function>`` by default. A lambda needs one.
        catch_up: what is fired of occurrences that were missed: ``"skip"`` the latest,
            ``"run-once"`` the earliest, ``"run-all"`` the latest ``max_catch_up``.
        max_catch_up: most occurrences fired at once under ``"run-all"``, from 1 to 1,000.

    Raises:
        InvariantError: the expression, the zone or the catch-up cannot be meant.
        DeclarationError: the name or the function cannot be used, or the name is taken.

    """

    def declare(function: Any) -> Task:
        durable = checked_name("name", default_name("@task", function) if name is None else name)
        declared = Task(
            name=durable,
            schedule=_checked_schedule(durable, cron, tz),
            function=_checked_function(durable, function),
            catch_up=_checked_catch_up(durable, catch_up),
            max_catch_up=_checked_max_catch_up(durable, max_catch_up),
        )
        tasks.add(declared)
        return declared

    return declare if enqueue is None else declare(enqueue)


def _checked_schedule(name: str, cron: Any, tz: Any) -> Schedule:
    try:
        return Schedule.parse(cron, tz)
    except InvariantError as error:
        raise InvariantError(f"'{name}': {error.cause}", fix=error.fix) from None


def _checked_function(name: str, function: Any) -> EntriesOf:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise DeclarationInvalid(f"'{name}': the entries must come from a plain function.")
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError):
        raise DeclarationInvalid(
            f"'{name}': the function must take exactly one argument, the occurrence."
        ) from None
    return cast("EntriesOf", function)


def _checked_catch_up(name: str, given: Any) -> CatchUp:
    if given not in get_args(CatchUp):
        raise InvariantError(f"'{name}': catch_up must be one of: {', '.join(get_args(CatchUp))}.")
    return cast("CatchUp", given)


def _checked_max_catch_up(name: str, given: Any) -> int:
    if type(given) is not int or not 1 <= given <= MOST_CATCH_UP:
        raise InvariantError(
            f"'{name}': max_catch_up must be a whole number from 1 to {MOST_CATCH_UP:,}."
        )
    return given


def _is_entry(entry: object) -> bool:
    return isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], Job)


def _instant(given: object) -> datetime:
    if given is None:
        return clock.now()  # a preview; the scheduler passes its occurrence
    if not isinstance(given, datetime) or given.utcoffset() is None:
        raise InvariantError("An occurrence has no time zone.", fix="Pass an aware datetime.")
    return given.astimezone(UTC)
