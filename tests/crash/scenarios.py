"""The runs that are killed, what they do to the world, and what must be true of it afterwards.

The world is a file that only grows, outside the database, as a payment provider's books are: what
was written to it stays, whatever becomes of the process that wrote it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from testproject.shop.models import Order
from tests.builders import Ping, declared, quiet
from tests.steps.runs import row, step_of, trace
from ultimate_jobs import AsyncRun, Enqueued, Job, JobsError, Retry, Run, publish_event
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.operate.verbs import resolve_step, retry_job

# Nothing falls due while a worker lives: what one worker does, and what the next, is the same each time.
TWICE = Retry(attempts=2, delay="1h", jitter=False)
THRICE = Retry(attempts=3, delay="1h", jitter=False)
ONE_ATTEMPT = Retry(attempts=1)


# The world


class World:
    """What was done outside the database: one line an effect, in order."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def happen(self, effect: str, job_id: object) -> str:
        """Do something that nothing undoes."""
        line = json.dumps([effect, f"{job_id}:{effect}"]) + "\n"
        books = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(books, line.encode())
        finally:
            os.close(books)
        return effect

    @property
    def effects(self) -> list[str]:
        """Everything that was done, in order."""
        return [effect for effect, _ in self._lines()]

    @property
    def keys(self) -> list[str]:
        """What a provider that knows its keys has done: each once."""
        return sorted({key for _, key in self._lines()})

    def _lines(self) -> list[list[str]]:
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text().splitlines()]


def doing(run: Run[Ping] | AsyncRun[Ping], effect: str) -> Callable[..., str]:
    """Answer a function that does something to the world."""
    return lambda *ignored: World(run.input.load).happen(effect, run.job_id)


# The bodies


def plain(run: Run[Ping]) -> list[Any]:
    return [run.step(name, doing(run, name)) for name in ("first", "second", "third")]


def asleep(run: Run[Ping]) -> str:
    run.step("before", doing(run, "before"))
    run.sleep("3d")
    run.step("after", doing(run, "after"))
    return "rested"


def waiting(run: Run[Ping]) -> Any:
    run.step("before", doing(run, "before"))
    paid = run.wait_for_event("payment", "paid", schema=dict, match=run.input.key, timeout="7d")
    run.step("after", doing(run, "after"))
    return paid


class Shipping(Exception):
    """Shipping does not work."""


def ship(run: Run[Ping]) -> None:
    doing(run, "ship")()
    raise Shipping("no carrier today")


def saga(run: Run[Ping]) -> None:
    run.step("charge", doing(run, "charge"), compensate=doing(run, "refund"))
    run.step("reserve", doing(run, "reserve"), compensate=doing(run, "release"))
    run.step("ship", lambda: ship(run))


class ShippingRefused(JobsError):
    """No carrier will ever take it."""

    retry = "terminal"


def refuse(run: Run[Ping]) -> None:
    doing(run, "ship")()
    raise ShippingRefused("never")


def refused_saga(run: Run[Ping]) -> None:
    run.step("charge", doing(run, "charge"), compensate=doing(run, "refund"))
    run.step("reserve", doing(run, "reserve"), compensate=doing(run, "release"))
    run.step("ship", lambda: refuse(run))


def careful_saga(run: Run[Ping]) -> None:
    run.step("charge", doing(run, "charge"), compensate=doing(run, "refund"), once=True)
    run.step("ship", lambda: ship(run))


def once(run: Run[Ping]) -> str:
    run.step("charge", doing(run, "charge"), once=True)
    run.step("after", doing(run, "after"))
    return "charged"


def sell(run: Run[Ping] | AsyncRun[Ping]) -> int:
    order = Order.objects.create(reference=str(new_id()), amount=Decimal(5))
    CHILD[0].enqueue(Ping(f"child of {run.job_id}"))
    publish_event("sold", {"order": order.pk})
    return int(order.pk)


def atomic(run: Run[Ping]) -> str:
    run.step("before", doing(run, "before"))
    run.atomic("sell", lambda: sell(run))
    run.step("after", doing(run, "after"))
    return "sold"


async def in_a_loop(run: AsyncRun[Ping]) -> str:
    async def think() -> str:
        return doing(run, "before")()

    await run.step("before", think)
    await run.atomic("sell", lambda: sell(run))
    await run.sleep("1h")
    await run.step("after", doing(run, "after"))
    return "sold"


CHILD: list[Job[Ping, Any]] = []


# What the world around the runs does, and what must be true at the end


def nobody(queued: Enqueued, world: World) -> None:
    """Leave the run alone."""


def the_payer(queued: Enqueued, world: World) -> None:
    """Pay once, when the run has begun to wait."""
    key = row(queued).input["key"]
    if ("payment", "waiting") in trace(queued) and "paid" not in world.effects:
        publish_event("paid", {"amount": 7}, correlation_key=key)
        world.happen("paid", queued.id)


def the_operator(queued: Enqueued, world: World) -> None:
    """Look a charge in doubt up in the provider's books, say what they say, and retry."""
    if row(queued).state == "dead" and step_state(queued, "charge") in ("started", "failed"):
        ran = "charge" in world.effects
        resolve_step(str(queued.id), "charge", ran=ran, output='"charge"' if ran else None)
        retry_job(str(queued.id))


def step_state(queued: Enqueued, name: str) -> str | None:
    return dict(trace(queued)).get(name)


def at_least_once(world: World, expected: list[str], kills: int) -> None:
    """Check that everything happened, in order, and no more was repeated than kills explain."""
    effects = world.effects
    assert list(dict.fromkeys(effects)) == expected
    assert len(effects) <= len(expected) + kills
    assert len(world.keys) == len(expected)


def is_done(queued: Enqueued, result: Any) -> None:
    ended = row(queued)
    assert (ended.state, ended.result) == ("done", result), ended.last_error


def check_plain(queued: Enqueued, world: World, kills: int) -> None:
    is_done(queued, ["first", "second", "third"])
    at_least_once(world, ["first", "second", "third"], kills)
    assert [status for _, status in trace(queued)] == ["completed"] * 3


def check_asleep(queued: Enqueued, world: World, kills: int) -> None:
    is_done(queued, "rested")
    at_least_once(world, ["before", "after"], kills)
    assert step_state(queued, "sleep:3d") == "completed"


def check_waiting(queued: Enqueued, world: World, kills: int) -> None:
    is_done(queued, {"amount": 7})
    at_least_once(world, ["before", "paid", "after"], kills)
    assert step_of(queued, "payment").output == {"payload": {"amount": 7}}


def check_saga(queued: Enqueued, world: World, kills: int) -> None:
    ended, effects = row(queued), world.effects
    assert ended.state == "dead"
    assert "Shipping" in str(ended.last_error)
    assert "X_JOB_COMPENSATION_FAILED" not in str(ended.last_error)
    assert list(dict.fromkeys(effects)) == ["charge", "reserve", "ship", "release", "refund"]
    assert len(effects) <= 6 + kills
    forward = [effect for effect in effects if effect in ("charge", "reserve", "ship")]
    assert effects[: len(forward)] == forward
    assert effects[len(forward) :] == sorted(effects[len(forward) :], reverse=True)
    assert step_state(queued, "compensate:charge") == "completed"


def check_careful_saga(queued: Enqueued, world: World, kills: int) -> None:
    effects = world.effects
    assert row(queued).state == "dead"
    assert effects.count("charge") <= 1
    assert effects.count("refund") <= 1 + kills
    assert ("charge" in effects) == ("refund" in effects)
    assert "X_JOB_COMPENSATION_FAILED" not in str(row(queued).last_error)


def check_once(queued: Enqueued, world: World, kills: int) -> None:
    is_done(queued, "charged")
    at_least_once(world, ["charge", "after"], kills)
    assert world.effects.count("charge") == 1


def check_sold(queued: Enqueued, world: World, kills: int) -> None:
    is_done(queued, "sold")
    at_least_once(world, ["before", "after"], kills)
    assert Order.objects.count() == 1
    (child,) = JobRow.objects.exclude(id=queued.id)
    assert child.state == "done"
    assert step_of(queued, "sell").output == Order.objects.get().pk


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run, whoever acts on it between two workers, and what must be true when it has ended."""

    body: Any
    check: Callable[[Enqueued, World, int], None]
    actor: Callable[[Enqueued, World], None] = nobody
    options: dict[str, Any] = field(default_factory=dict)


SCENARIOS = {
    "plain": Scenario(plain, check_plain),
    "asleep": Scenario(asleep, check_asleep),
    "waiting": Scenario(waiting, check_waiting, the_payer),
    "saga": Scenario(saga, check_saga, options={"retry": TWICE, "compensates": True}),
    "refused saga": Scenario(
        refused_saga, check_saga, options={"retry": THRICE, "compensates": True}
    ),
    "careful saga": Scenario(
        careful_saga,
        check_careful_saga,
        the_operator,
        {"retry": ONE_ATTEMPT, "compensates": True},
    ),
    "once": Scenario(once, check_once, the_operator),
    "atomic": Scenario(atomic, check_sold),
    "async": Scenario(in_a_loop, check_sold),
}


@contextmanager
def declared_all() -> Iterator[dict[str, Job[Ping, Any]]]:
    """Declare the job of every scenario, under the same names in every process."""
    with ExitStack() as stack:

        def declare(name: str, body: Any, **options: Any) -> Job[Ping, Any]:
            named = {"name": f"tests.crash.{name}", "retry": THRICE, **options}
            return stack.enter_context(declared(body, **named))

        CHILD[:] = [declare("child", quiet)]
        yield {
            name: declare(name, scenario.body, **scenario.options)
            for name, scenario in SCENARIOS.items()
        }
