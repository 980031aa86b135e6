"""What the producers will do: kinds of jobs and what they promise, and transactions full of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass
from random import Random
from typing import Final

BATCH = 20
ROLLED_BACK_EVERY = 10


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


def plan(jobs: int, dice: Random) -> list[Planned]:
    """Plan transactions that commit so many jobs between them, and others that roll back."""
    planned: list[Planned] = []
    left = jobs
    while left:
        rolls_back = len(planned) % ROLLED_BACK_EVERY == ROLLED_BACK_EVERY - 1
        size = min(BATCH, left)
        planned.append(_transaction(f"t{len(planned):05}", size, dice, rolls_back=rolls_back))
        left -= 0 if rolls_back else size
    return planned


def _transaction(key: str, size: int, dice: Random, *, rolls_back: bool) -> Planned:
    weights = [kind.percent for kind in KINDS.values()]
    jobs: dict[str, list[str]] = {}
    for number, kind in enumerate(dice.choices(list(KINDS), weights, k=size)):
        jobs.setdefault(kind, []).append(f"{key}-{number:02}")
    return Planned(key, jobs, rolls_back)
