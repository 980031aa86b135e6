"""Kill a job at every statement that it takes, and compare what it has done.

    def test_checkout_survives_a_kill(self) -> None:
        crash_proof(
            checkout,
            Checkout(order_id=7),
            setup=lambda: Order.objects.create(id=7),
            effects=gateway.charges,
            ledger=lambda: list(Order.objects.values("id", "state")),
        )

Each place is tried in a run of its own, in a world that is undone afterwards.
"""

from __future__ import annotations

import difflib
import pprint
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.core.states import JobState
from ultimate_jobs.definitions.job import Job
from ultimate_jobs.errors import CrashDiverged, StepOutcomeUnknown
from ultimate_jobs.models import Job as JobRow, JobStep
from ultimate_jobs.operate.verbs import resolve_step, retry_job
from ultimate_jobs.testing.door import Side
from ultimate_jobs.testing.processes import MOST_MOVES, Succession, a_site

I = TypeVar("I")

SHOWN = 10
"""Moments that a message names."""


class Effects(Protocol):
    """What a fake of the world outside has been told: a list, a dictionary, or alike."""

    def clear(self) -> object:
        """Forget everything."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """A place to die at: a statement of the undisturbed run, and on which side of it."""

    number: int
    statement: str
    side: Side

    def __str__(self) -> str:
        """Name it for a message."""
        return f"{self.side} {self.statement} (statement {self.number + 1})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashReport:
    """What was tried: every moment, and the ledger that each of them led to."""

    moments: Sequence[Moment]
    ledger: Mapping[str, object]
    in_doubt: Sequence[Moment] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Played:
    statements: Sequence[str]
    ledger: Mapping[str, object]
    in_doubt: bool
    killed: bool


def crash_proof(
    job: Job[I, Any],
    input: I,  # noqa: A002 - what every call over a job names it
    *,
    ledger: Callable[[], object] = lambda: None,
    effects: Effects | tuple[Effects, ...] = (),
    setup: Callable[[], object] = lambda: None,
    meanwhile: Callable[[], object] = lambda: None,
    resolve: Callable[[str], bool] | None = None,
) -> CrashReport:
    """Run a job undisturbed, then once for every moment to die at, and compare what it has done.

    The worker is killed before each statement is sent, and after each was answered but before the
    program heard. That is every step boundary as well: a step's function has taken effect and its
    record has not been sent, or has been stored and the body does not know. The dead attempt
    writes nothing more, its open transaction is rolled back, its lease runs out by a clock that is
    moved, and another worker finishes the run.

    Works in a ``TestCase`` and in a ``TransactionTestCase``. Every run happens in one transaction
    that is undone, in which savepoints stand for transactions; nothing of it is left.

    Args:
        job: the job.
        input: its input.
        ledger: answers what is to be compared of the database, as lists, dictionaries and numbers;
            called at the end of each run. Ids of jobs are compared by their order.
        effects: what a fake outside the database has been told, or a tuple of such; compared, and
            cleared before each run.
        setup: makes the rows that the job needs; called at the start of each run.
        meanwhile: what happens outside, such as an event; called whenever nothing is due, also
            more than once.
        resolve: says whether an at-most-once step took effect, by its name, as an operator would
            who looks it up. The run is then retried, and has to end like the undisturbed one.
            Without it a run may end in doubt: it must have done nothing more often than the
            undisturbed one.

    Raises:
        CrashDiverged: an effect was lost or doubled, the run ended otherwise, or the job does not
            take the same way twice.

    """
    fakes = effects if isinstance(effects, tuple) else (effects,)
    stage = _Stage(
        job=job,
        input=input,
        ledger=ledger,
        fakes=fakes,
        setup=setup,
        meanwhile=meanwhile,
        resolve=resolve,
    )
    undisturbed = stage.play(None)
    moments = list(_moments(undisturbed.statements))
    in_doubt, wrong = [], []
    for moment in moments:
        played = stage.play(moment)
        difference = _difference(undisturbed, played)
        if difference:
            wrong.append((moment, difference))
        elif played.in_doubt:
            in_doubt.append(moment)
    if wrong:
        raise CrashDiverged(
            _told(job.name, wrong, len(moments)), meta={"moments": [str(m) for m, _ in wrong]}
        )
    return CrashReport(moments=moments, ledger=undisturbed.ledger, in_doubt=in_doubt)


def _moments(statements: Sequence[str]) -> Iterator[Moment]:
    for number, statement in enumerate(statements):
        yield Moment(number, statement, "before")
        yield Moment(number, statement, "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Plays one job again and again, each time in a world of its own."""

    job: Job[Any, Any]
    input: Any
    ledger: Callable[[], object]
    fakes: Sequence[Any]
    setup: Callable[[], object]
    meanwhile: Callable[[], object]
    resolve: Callable[[str], bool] | None

    def play(self, moment: Moment | None) -> _Played:
        """Play the run from its enqueue to its end; the worker dies at the moment, if there is one."""
        for fake in self.fakes:
            fake.clear()
        statements: list[str] = []

        def dies(statement: str, side: Side) -> bool:
            if side == "before":
                statements.append(statement)
            return moment == Moment(len(statements) - 1, statement, side)

        with a_site() as site:
            self.setup()
            queued = self.job.enqueue(self.input)
            workers = Succession(site=site, dies=dies, meanwhile=self.meanwhile)
            self._to_the_end(workers, queued.id)
            row = _rows().get(id=queued.id)
            ledger = {
                "state": row.state,
                "result": row.result,
                "ledger": self.ledger(),
                "effects": [deepcopy(fake) for fake in self.fakes],
            }
            return _Played(
                statements=statements,
                ledger=_renamed(ledger, _names()),
                in_doubt=_is_in_doubt(row),
                killed=workers.deaths > 0,
            )

    def _to_the_end(self, workers: Succession, job: UUID) -> None:
        while workers.to_the_end():
            if self.resolve is None or (step := _step_in_doubt(job)) is None:
                return
            resolve_step(str(job), step, ran=self.resolve(step))
            retry_job(str(job))
        raise CrashDiverged(f"'{self.job.name}' has not ended after {MOST_MOVES} waits.")


def _rows() -> QuerySet[JobRow]:
    return JobRow.objects.using(get_settings().database)


def _names() -> dict[str, str]:
    """Give the jobs of this run names that those of every other run have, in their order."""
    ids = enumerate(_rows().order_by("id").values_list("id", "run_id"), start=1)
    return {
        str(id_): f"{kind}-{number}"
        for number, pair in ids
        for kind, id_ in zip(("job", "run"), pair, strict=True)
    }


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Put the names of jobs where their ids are: in keys of effects, above all."""
    match value:
        case str():
            for id_, name in names.items():
                value = value.replace(id_, name)
            return value
        case UUID():
            return names.get(str(value), value)
        case Mapping():
            return {_renamed(key, names): _renamed(one, names) for key, one in value.items()}
        case list() | tuple():
            return [_renamed(one, names) for one in value]
        case _:
            return value


def _is_in_doubt(row: JobRow) -> bool:
    return row.state == JobState.DEAD and StepOutcomeUnknown.code in (row.last_error or "")


def _step_in_doubt(job: UUID) -> str | None:
    row = _rows().get(id=job)
    if not _is_in_doubt(row):
        return None
    steps = JobStep.objects.using(get_settings().database).filter(
        run_id=row.run_id, status__in=[StepStatus.STARTED, StepStatus.FAILED]
    )
    return steps.order_by("position").values_list("name", flat=True).last()


def _difference(undisturbed: _Played, played: _Played) -> str:
    """Say how a killed run differs; nothing when it may end as it did."""
    if not played.killed:
        return "the moment never came: the job does not take the same way twice"
    if played.in_doubt and not undisturbed.in_doubt:
        parts = ("ledger", "effects")
        if all(_no_more(undisturbed.ledger[part], played.ledger[part]) for part in parts):
            return ""
    if undisturbed.ledger == played.ledger:
        return ""
    return "\n".join(_lines(undisturbed.ledger, played.ledger))


def _lines(expected: Mapping[str, object], met: Mapping[str, object]) -> Iterator[str]:
    for part, value in expected.items():
        if value != met[part]:
            yield f"  {part}:"
            before, after = pprint.pformat(value, width=80), pprint.pformat(met[part], width=80)
            if "\n" not in before + after:
                yield f"    undisturbed: {before}"
                yield f"    killed:      {after}"
                continue
            lines = difflib.ndiff(before.splitlines(), after.splitlines())
            yield from (f"    {line}" for line in lines if not line.startswith("?"))


def _no_more(expected: object, met: object) -> bool:
    """Answer whether nothing is in a ledger more often than in another."""
    match expected, met:
        case Mapping(), Mapping():
            return all(key in expected and _no_more(expected[key], met[key]) for key in met)
        case list() | tuple(), list() | tuple():
            if len(expected) == len(met) and any(_is_container(one) for one in met):
                return all(_no_more(*pair) for pair in zip(expected, met, strict=True))
            return not Counter(map(repr, met)) - Counter(map(repr, expected))
        case int() | float(), int() | float():
            return met <= expected
        case _:
            return True  # what the run did not come to is not done twice


def _is_container(value: object) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _told(name: str, wrong: Sequence[tuple[Moment, str]], tried: int) -> str:
    first, difference = wrong[0]
    others = [f"  {moment}" for moment, _ in wrong[1:SHOWN]]
    left = len(wrong) - SHOWN
    more = [f"  and {left} more"] if left > 0 else []
    also = ["It also diverges when it is killed", *others, *more] if others else []
    return "\n".join(
        [
            f"'{name}' does not do the same when it is killed, at {len(wrong)} of {tried} moments.",
            f"Killed {first}:",
            difference,
            *also,
        ]
    )
