"""The rules. Each takes what was found and says what breaks it; none reads anything itself."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from testproject.soak.plan import KINDS


@dataclass(frozen=True, slots=True)
class Row:
    """A row of `x_jobs`."""

    key: str
    state: str
    claim: int
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class Minute:
    """A job of the schedule: the minute it was fired for, counted from the epoch."""

    number: int
    state: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when all is over.

    Attributes:
        committed: the kind of each job whose transaction committed, by key.
        rolled_back: keys whose transaction did not.
        rows: the jobs that were brought.
        minutes: the jobs of the schedule, in the order of their minutes.
        staged: keys that wait in the outbox.
        effects: how often each effect happened, by key and step.
        leases: rows of concurrency leases that are still in force.
        orphans: steps of runs that do not exist.
        connections: client connections before the first process and after the last.
        most_connections: the most that one process had at once.
        connection_limit: the most that one process may have.
        peak_mb: the most memory that one process had.
        memory_limit_mb: the most memory that one process may have.
        exits: how the processes ended that were told to stop, by name.
        unfinished: why the work was given up, if it was.

    """

    committed: Mapping[str, str]
    rolled_back: AbstractSet[str]
    rows: Sequence[Row]
    minutes: Sequence[Minute] = ()
    staged: Sequence[str] = ()
    effects: Mapping[tuple[str, str], int] = field(default_factory=dict)
    leases: int = 0
    orphans: int = 0
    connections: tuple[int, int] = (0, 0)
    most_connections: int = 0
    connection_limit: int = 0
    peak_mb: int = 0
    memory_limit_mb: int = 0
    exits: Mapping[str, int] = field(default_factory=dict)
    unfinished: str | None = None


def in_time(facts: Facts) -> Iterator[str]:
    if facts.unfinished is not None:
        yield facts.unfinished


def every_committed_job_is_done_once(facts: Facts) -> Iterator[str]:
    rows = Counter(row.key for row in facts.rows)
    done = {row.key for row in facts.rows if row.state == "done"}
    for key in facts.committed:
        if rows[key] != 1 or key not in done:
            states = [row.state for row in facts.rows if row.key == key]
            yield f"{key}: {states or 'no row'}"


def every_minute_is_fired_once(facts: Facts) -> Iterator[str]:
    """None is left out between the first and the last, and none is there twice."""
    fired = [minute.number for minute in facts.minutes]
    wanted = list(range(fired[0], fired[-1] + 1)) if fired else []
    if fired != wanted:
        yield f"{fired}"
    yield from (f"{one.number}: {one.state}" for one in facts.minutes if one.state != "done")


def nothing_waits_in_the_outbox(facts: Facts) -> Iterator[str]:
    yield from facts.staged


def nothing_rolled_back_exists(facts: Facts) -> Iterator[str]:
    known = facts.committed.keys()
    yield from (f"{row.key}: a job" for row in facts.rows if row.key not in known)
    yield from (f"{key}: an effect" for key, _ in facts.effects if key not in known)
    yield from (f"{key}: both" for key in facts.rolled_back & known)


def transactions_take_effect_once(facts: Facts) -> Iterator[str]:
    for key, kind in facts.committed.items():
        for step in KINDS[kind].once:
            if (times := facts.effects.get((key, step), 0)) != 1:
                yield f"{key}: {step} {times} times"


def steps_repeat_only_with_a_claim(facts: Facts) -> Iterator[str]:
    """A step is called again only by a later claim: as many calls as claims at most."""
    claims = {row.key: row.claim for row in facts.rows}
    for key, kind in facts.committed.items():
        for step in KINDS[kind].at_least_once:
            times = facts.effects.get((key, step), 0)
            if not 1 <= times <= claims.get(key, 0):
                yield f"{key}: {step} {times} times in {claims.get(key, 0)} claims"


def no_effect_is_unknown(facts: Facts) -> Iterator[str]:
    for key, step in facts.effects:
        kind = KINDS.get(facts.committed.get(key, ""))
        if kind is not None and step not in kind.once | kind.at_least_once:
            yield f"{key}: {step}"


def nothing_is_held(facts: Facts) -> Iterator[str]:
    yield from (f"{row.key}: {row.state}" for row in facts.rows if row.is_held)
    if facts.leases:
        yield f"{facts.leases} concurrency leases"


def every_step_has_a_run(facts: Facts) -> Iterator[str]:
    if facts.orphans:
        yield f"{facts.orphans} steps"


def no_connection_is_left(facts: Facts) -> Iterator[str]:
    before, after = facts.connections
    if after != before:
        yield f"{before} before, {after} after"


def connections_are_bounded(facts: Facts) -> Iterator[str]:
    if facts.most_connections > facts.connection_limit:
        yield f"{facts.most_connections} of one process, {facts.connection_limit} are its limit"


def processes_end_well(facts: Facts) -> Iterator[str]:
    """One that is told to stop before it listens to signals ends by the signal."""
    well = {0, -signal.SIGTERM}
    yield from (f"{name}: {code}" for name, code in facts.exits.items() if code not in well)


def memory_is_bounded(facts: Facts) -> Iterator[str]:
    if facts.peak_mb > facts.memory_limit_mb:
        yield f"{facts.peak_mb} MB in one process, {facts.memory_limit_mb} are its limit"


RULES: Final[Sequence[Callable[[Facts], Iterator[str]]]] = (
    in_time,
    every_committed_job_is_done_once,
    every_minute_is_fired_once,
    nothing_waits_in_the_outbox,
    nothing_rolled_back_exists,
    transactions_take_effect_once,
    steps_repeat_only_with_a_claim,
    no_effect_is_unknown,
    nothing_is_held,
    every_step_has_a_run,
    no_connection_is_left,
    connections_are_bounded,
    memory_is_bounded,
    processes_end_well,
)


def audit(facts: Facts) -> dict[str, list[str]]:
    """Answer the names of the rules that are broken, each with what breaks it."""
    found = {rule.__name__: list(rule(facts)) for rule in RULES}
    return {name: broken for name, broken in found.items() if broken}
