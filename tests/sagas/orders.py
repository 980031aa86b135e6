"""A saga over an outside world: charge, reserve, ship, and what undoes the first two.

order = Saga()
order.broken.add("ship")
ended = run_to_the_end(declare(order.body, retry=TWICE, compensates=True))
assert order.world == ["charge", "reserve", "ship", "ship", "release", "refund"]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.builders import Ping
from ultimate_jobs import Run


class Shipping(Exception):
    """Shipping does not work."""


class Refunding(Exception):
    """Refunding does not work."""


ERRORS: dict[str, type[Exception]] = {"ship": Shipping, "refund": Refunding}


class Saga:
    """The body, what it did to the world, and what is broken in it.

    ``meanwhile`` maps an effect to what happens right after it, on the body's thread.
    """

    def __init__(self, *, once: bool = False) -> None:
        self.world: list[str] = []
        self.outputs: dict[str, Any] = {}
        self.broken: set[str] = set()
        self.meanwhile: dict[str, Callable[[], object]] = {}
        self.before_ship: Callable[[Run[Ping]], object] = lambda run: None
        self.once = once

    def body(self, run: Run[Ping]) -> str:
        run.step(
            "charge",
            lambda: self.effect("charge", {"id": "ch_1"}),
            compensate=lambda output: self.effect("refund", output),
            once=self.once,
        )
        run.step(
            "reserve",
            lambda: self.effect("reserve", ("shelf", 7)),
            compensate=lambda output: self.effect("release", output),
        )
        self.before_ship(run)
        run.step("ship", lambda: self.effect("ship"))
        return "shipped"

    def effect(self, name: str, output: Any = None) -> Any:
        """Do something to the world, and then perhaps fail."""
        self.world.append(name)
        self.outputs[name] = output
        self.meanwhile.get(name, lambda: None)()
        if name in self.broken:
            raise ERRORS.get(name, RuntimeError)(f"{name} does not work")
        return output
