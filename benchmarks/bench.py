"""What every scenario is given: both sides, how often to measure, and how much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Self, TypeVar

from benchmarks.figures import alternated
from benchmarks.sides import Ours, Raw, Side, Site

S = TypeVar("S", bound=Side)


class Bench:
    """Both sides, made when first asked for; ``say`` is told what is being done."""

    def __init__(
        self,
        site: Site,
        stack: ExitStack,
        *,
        repeat: int,
        scale: float,
        say: Callable[[str], None],
    ) -> None:
        self.repeat = repeat
        self.scale = scale
        self.say = say
        self._site = site
        self._stack = stack

    @cached_property
    def raw(self) -> Raw:
        return self.one_more(Raw)

    @cached_property
    def ours(self) -> Ours:
        return self.one_more(Ours)

    def side(self, kind: type[Side]) -> Side:
        """Answer the side of this kind."""
        return self.ours if kind is Ours else self.raw

    def one_more(self, kind: type[S]) -> S:
        """Make a side with a database of its own, for the rest of the run."""
        return self._stack.enter_context(kind.made(self._site))

    def scaled(self, number: int) -> int:
        """Answer how many it is at this scale, one at least."""
        return max(1, round(number * self.scale))

    def alternated(
        self, slices: int = 1, /, **measures: Callable[[], float]
    ) -> dict[str, list[float]]:
        """Measure rates in turn, as often as was asked for."""

        def told(name: str, measure: Callable[[], float]) -> Callable[[], float]:
            def measured() -> float:
                self.say(name)
                return measure()

            return measured

        telling = {name: told(name, measure) for name, measure in measures.items()}
        return alternated(self.repeat, telling, slices=slices)

    @classmethod
    @contextmanager
    def opened(
        cls, site: Site, *, repeat: int, scale: float, say: Callable[[str], None]
    ) -> Iterator[Self]:
        """Have it inside the block; everything that was started ends with it."""
        with ExitStack() as stack:
            yield cls(site, stack, repeat=repeat, scale=scale, say=say)
