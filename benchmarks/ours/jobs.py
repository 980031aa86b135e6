"""The jobs that are measured."""

from __future__ import annotations

from functools import partial
from operator import add
from typing import Any, Final, TypedDict

from django.contrib.contenttypes.models import ContentType

from benchmarks.ticks import tick
from ultimate_jobs import NO_TENANT, Retry, Run, job

STEPS = 5


class Number(TypedDict):
    """The input of every job here, and its key."""

    n: int


DECLARED: Final[dict[str, Any]] = {
    "input": Number,
    "tenant": NO_TENANT,
    "idempotency_key": lambda value: str(value["n"]),
    "retry": Retry(attempts=3),
}


@job(**DECLARED, name="noop")
def noop(run: Run[Number]) -> None:
    """Do nothing."""
    tick()


@job(**DECLARED, name="look")
def look(run: Run[Number]) -> None:
    """Look at a row, as most bodies do."""
    ContentType.objects.first()
    tick()


@job(**DECLARED, name="five_steps")
def five_steps(run: Run[Number]) -> None:
    """Add a number in each step."""
    for place in range(STEPS):
        run.step(f"step-{place}", partial(add, run.input["n"], place))
    tick()
