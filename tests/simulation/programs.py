"""Random bodies: what a body does, as data that can be generated, stored and run.

``Step``, ``Atomic`` and ``Code`` raise the first ``fails`` times they are reached. ``during`` happens
the first time their function is called: the worker is told to drain, or the job is cancelled.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hypothesis import strategies as st

Disturbance = Literal["drain", "cancel"] | None
Answer = Literal["never", "meanwhile", "provoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """``run.step``. ``retries`` are those of its own; ``caught``: the body goes on when it fails."""

    fails: int = 0
    terminal: bool = False
    once: bool = False
    undo: bool = False
    undo_fails: int = 0
    retries: int = 0
    caught: bool = False
    during: Disturbance = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Atomic:
    """``run.atomic`` that writes one row."""

    fails: int = 0
    terminal: bool = False
    caught: bool = False
    during: Disturbance = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Code between steps."""

    fails: int = 0
    terminal: bool = False
    during: Disturbance = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """``run.sleep``."""

    hours: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """``run.wait_for_event``; a step before it may provoke the answer."""

    answer: Answer = "never"


Instruction = Step | Atomic | Code | Sleep | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A body, and when its workers die: at the n-th place to die of the n-th of them.

    Each statement of a worker is two places, one on each side of it. ``suspends``: the run is
    suspended after every step.
    """

    attempts: int
    compensates: bool
    body: tuple[Instruction, ...]
    deaths: tuple[tuple[int, int], ...] = ()
    suspends: bool = False

    @property
    def named(self) -> list[tuple[str, Instruction]]:
        """The instructions with their names."""
        return [(f"{type(one).__name__.lower()}-{n}", one) for n, one in enumerate(self.body)]

    def dumped(self) -> str:
        """Write it down as JSON."""
        body = [{"kind": type(one).__name__, **asdict(one)} for one in self.body]
        return json.dumps({**asdict(self), "body": body}, indent=1)


def loaded(text: str) -> Program:
    """Read a program that was written down."""
    found: dict[str, Any] = json.loads(text)
    kinds: dict[str, Callable[..., Instruction]] = {
        kind.__name__: kind for kind in (Step, Atomic, Code, Sleep, Wait)
    }
    body = tuple(kinds[one.pop("kind")](**one) for one in found.pop("body"))
    deaths = tuple((worker, place) for worker, place in found.pop("deaths"))
    return Program(**found, body=body, deaths=deaths)


def programs(most: int = 6) -> st.SearchStrategy[Program]:
    """Generate programs."""
    return st.booleans().flatmap(lambda compensates: _programs(most, compensates=compensates))


def _programs(most: int, *, compensates: bool) -> st.SearchStrategy[Program]:
    few, seldom = st.sampled_from([0, 0, 0, 1, 1, 2]), st.sampled_from([False, False, False, True])
    disturbed = st.sampled_from([None, None, None, None, "drain", "cancel"])
    drained = st.sampled_from([None, None, None, None, "drain"])
    steps = st.builds(
        Step,
        fails=few,
        terminal=seldom,
        once=seldom,
        undo=st.sampled_from([True, True, False]) if compensates else st.just(value=False),
        undo_fails=st.sampled_from([0, 0, 0, 1, 3]),
        retries=st.sampled_from([0, 0, 2]),
        caught=seldom,
        during=disturbed,
    )
    atomics = st.builds(Atomic, fails=few, terminal=seldom, caught=seldom, during=drained)
    codes = st.builds(Code, fails=few, terminal=seldom, during=disturbed)
    sleeps = st.builds(Sleep, hours=st.integers(1, 3))
    waits = st.builds(Wait, answer=st.sampled_from(["never", "meanwhile", "provoked"]))
    bodies = st.lists(
        st.one_of(steps, steps, atomics, codes, sleeps, waits), min_size=1, max_size=most
    ).map(tuple)
    # What compensates is of interest when it fails for good.
    ends = st.sampled_from([(), (Code(fails=9, terminal=True),)]) if compensates else st.just(())
    deaths = st.tuples(st.integers(0, 3), st.integers(0, 25))
    return st.builds(
        Program,
        attempts=st.integers(1, 3),
        compensates=st.just(compensates),
        body=st.tuples(bodies, ends).map(lambda parts: parts[0] + parts[1]),
        deaths=st.lists(deaths, max_size=3, unique_by=lambda death: death[0])
        .map(sorted)
        .map(tuple),
    )
