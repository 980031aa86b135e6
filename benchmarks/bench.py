"""What every scenario is given: both sides, how often to measure, and how much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Self, TypeVar, cast

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
        self._sides: dict[tuple[type[Side], int], Side] = {}

    @property
    def raw(self) -> Raw:
        return self.side(Raw)

    @property
    def ours(self) -> Ours:
        return self.side(Ours)

    def side(self, kind: type[S], number: int = 0) -> S:
        """Answer a side with a database of its own, as it was left; numbers tell them apart."""
        key = (kind, number)
        if key not in self._sides:
            self._sides[key] = self._stack.enter_context(kind.made(self._site))
        return cast("S", self._sides[key])

    def scaled(self, number: int) -> int:
        """Answer how many it is at this scale, one at least."""
        return max(1, round(number * self.scale))

    def alternated(
        self, slices: int = 1, /, **measures: Callable[[], float]
    ) -> dict[str, list[float]]:
        """Measure in turn, as often as was asked for."""

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
