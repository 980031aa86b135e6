"""What the producers will do: kinds of jobs and what they promise, and transactions full of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final

BATCH = 20
ROLLED_BACK_EVERY = 10


ROUND_SECONDS = 40.0
"""What goes wrong in a soak goes wrong again each time as many seconds of chaos are over."""


@dataclass(frozen=True, slots=True)
class Length:
    """How much work is brought: so many jobs, or, without a number, what so many seconds take.

    Attributes:
        jobs: the number.
        seconds: how long work is brought without one.
        patience: seconds until everything has to have ended afterwards.

    """

    jobs: int | None
    seconds: float = 0.0
    patience: float = 165.0

    @property
    def limit(self) -> float:
        """Seconds after which it is given up."""
        return self.seconds + self.patience

    def rounds(self, ended: int, passed: float) -> float:
        """Answer how many rounds of what goes wrong are over, and what share of the next."""
        if self.jobs is None:
            return min(passed, self.seconds) / ROUND_SECONDS
        return ended / self.jobs

    def is_enough(self, passed: float) -> bool:
        """Answer whether no more work is to be begun."""
        return self.jobs is None and passed >= self.seconds


@dataclass(frozen=True, slots=True)
class Kind:
    """How many in a hundred jobs are of this kind, and the effects that each of them leaves.

    Attributes:
        once: effects that happen exactly once.
        at_least_once: effects that happen again when their record was lost.

    """

    percent: int
    once: AbstractSet[str] = frozenset()
    at_least_once: AbstractSet[str] = frozenset()


KINDS: Final[Mapping[str, Kind]] = {
    "plain": Kind(54),
    "steps": Kind(14, at_least_once=frozenset({"first", "second"})),
    "rest": Kind(6, at_least_once=frozenset({"rested"})),
    "ask": Kind(6, at_least_once=frozenset({"ask"})),
    "book": Kind(12, once=frozenset({"book"})),
    "queue_up": Kind(8, once=frozenset({"queue_up"})),
}


@dataclass(frozen=True, slots=True)
class Planned:
    """One transaction: its own key, and the keys of its jobs by kind."""

    key: str
    jobs: Mapping[str, list[str]]
    rolls_back: bool = False

    def kinds(self) -> Iterator[tuple[str, str]]:
        """Answer the key and the kind of each job."""
        for kind, keys in self.jobs.items():
            yield from ((key, kind) for key in keys)


def plan(jobs: int | None, dice: Random) -> Iterator[Planned]:
    """Plan transactions that commit so many jobs between them, and others that roll back.

    Without a number they never end.
    """
    left = jobs
    for number in count():
        if left == 0:
            return
        rolls_back = number % ROLLED_BACK_EVERY == ROLLED_BACK_EVERY - 1
        size = BATCH if left is None else min(BATCH, left)
        yield _transaction(f"t{number:06}", size, dice, rolls_back=rolls_back)
        if left is not None and not rolls_back:
            left -= size


def _transaction(key: str, size: int, dice: Random, *, rolls_back: bool) -> Planned:
    weights = [kind.percent for kind in KINDS.values()]
    jobs: dict[str, list[str]] = {}
    for number, kind in enumerate(dice.choices(list(KINDS), weights, k=size)):
        jobs.setdefault(kind, []).append(f"{key}-{number:02}")
    return Planned(key, jobs, rolls_back)
