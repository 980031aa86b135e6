"""Runs that are suspended after every step end as others do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders import Declarations, Ping
from tests.sagas import test_unwind
from tests.simulation.test_crash_proof import an_order, orders
from tests.steps.runs import Calls, finish, row, start, work
from ultimate_jobs import Run
from ultimate_jobs.testing.boundaries import every_boundary_suspends
from ultimate_jobs.testing.crashes import crash_proof

saga = test_unwind.saga


@pytest.fixture
def suspended() -> Iterator[None]:
    with every_boundary_suspends():
        yield


def three_steps(calls: Calls) -> object:
    def body(run: Run[Ping]) -> list[object]:
        calls.append("entered")
        return [
            run.step("a", calls("a", 1)),
            run.step("b", calls("b", 2), once=True),
            run.atomic("c", calls("c", 3)),
        ]

    return body


@pytest.mark.usefixtures("suspended")
class TestAnUnwindInPieces(test_unwind.TestOrder):
    pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("suspended")
class TestRealWorkers:
    def test_the_body_is_entered_once_more_for_every_step(self, declare: Declarations) -> None:
        calls = Calls()
        queued = start(declare(three_steps(calls)))  # type: ignore[arg-type]

        work()

        assert calls == ["entered", "a", "entered", "b", "entered", "c", "entered"]
        assert (row(queued).state, row(queued).result) == ("done", [1, 2, 3])
        assert (row(queued).attempt, row(queued).claim) == (1, 4)


@pytest.mark.django_db
@pytest.mark.usefixtures("suspended")
def test_a_crash_proof_in_pieces(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        run.atomic("first", lambda: an_order("first"))
        run.sleep("1h")
        run.atomic("second", lambda: an_order("second"))

    report = crash_proof(declare(body), Ping("a"), ledger=orders)

    assert report.ledger["ledger"] == ["first", "second"]
    assert [m.statement for m in report.moments].count("queue/claim") == 2 * 4


@pytest.mark.counts_claims
@pytest.mark.django_db(transaction=True)
def test_it_ends_with_its_block(declare: Declarations) -> None:
    with every_boundary_suspends(), every_boundary_suspends():
        pass
    queued = start(declare(lambda run: run.step("a", lambda: 1)))

    finish(queued)

    assert row(queued).claim == 1
