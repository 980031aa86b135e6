"""What a body is given."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import Ping, declared
from ultimate_jobs import CancelToken, Run
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.jsonform import JSONValue, canonical
from ultimate_jobs.core.records import Fence
from ultimate_jobs.definitions.context import Ceilings
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import InvariantError
from ultimate_jobs.steps.runner import StepRunner


def never_asked() -> StepRunner:
    job = new_id()
    fence = Fence(job_id=job, run_id=job, claim=1, worker="w")
    with declared() as ping:
        return StepRunner(get_driver().steps, fence, CancelToken(), ping.spec, fresh=True)


def no_ceilings() -> Ceilings:
    class Unwatched:
        def step(
            self, name: str, token: CancelToken, limit: timedelta
        ) -> AbstractContextManager[None]:
            return nullcontext()

    return Unwatched()


@pytest.fixture
def notes() -> list[JSONValue]:
    return []


@pytest.fixture
def run(notes: list[JSONValue]) -> Run[Ping]:
    return Run(
        input=Ping("k"),
        attempt=1,
        job_id=new_id(),
        run_id=new_id(),
        final_attempt=False,
        signal=CancelToken(),
        tenant=None,
        report=notes.append,
        steps=never_asked(),
        ceilings=no_ceilings(),
    )


def test_progress_is_reported_as_plain_values(run: Run[Ping], notes: list[JSONValue]) -> None:
    run.progress(1)
    run.progress(2.5, 10, "half-way")

    assert notes == [
        {"done": 1, "total": None, "note": ""},
        {"done": 2.5, "total": 10, "note": "half-way"},
    ]


@pytest.mark.parametrize("number", [-1, float("nan"), float("inf"), -0.1])
def test_progress_takes_finite_numbers_from_zero(run: Run[Ping], number: float) -> None:
    with pytest.raises(InvariantError):
        run.progress(number)
    with pytest.raises(InvariantError):
        run.progress(1, number)


@pytest.mark.parametrize("note", ["a\x00b", "\ud800", "x" * 10_000, 7])
def test_any_note_is_made_storable_and_cut(
    run: Run[Ping], notes: list[JSONValue], note: Any
) -> None:
    run.progress(1, note=note)

    (written,) = notes
    assert canonical(written) == written
    assert isinstance(written, dict)
    assert len(str(written["note"])) <= 1_000


def test_a_run_cannot_be_changed(run: Run[Ping]) -> None:
    with pytest.raises(AttributeError):
        run.attempt = 7  # type: ignore[misc]
