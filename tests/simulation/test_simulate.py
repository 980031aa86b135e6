"""simulate_jobs: races are found, shrunk and replayed, and what is right stays right."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.test import TestCase, TransactionTestCase

from testproject.shop.models import Order
from tests.builders import Declarations, Ping, declared
from tests.steps.runs import Calls
from ultimate_jobs import AsyncRun, Job, Run, publish_event
from ultimate_jobs.errors import InvariantError, SimulationFailed
from ultimate_jobs.models import Job as JobRow, JobStep
from ultimate_jobs.testing.simulation import Fault, simulate_jobs

database = pytest.mark.django_db


def sell(guest: str) -> str:
    return Order.objects.create(reference=guest, sku="seat", amount=Decimal(5)).reference


def book_carelessly(run: Run[Ping]) -> None:
    """Look, and sell: between the two somebody else may sell."""
    if not Order.objects.filter(sku="seat").exists():
        sell(run.input.key)


def book(run: Run[Ping]) -> None:
    run.atomic("sell", lambda: sell(f"{run.input.key} {run.job_id}"))


def sold() -> int:
    return Order.objects.filter(sku="seat").count()


def sold_once() -> bool:
    return sold() <= 1


def of_two(job: Job[Ping, Any]) -> list[tuple[Job[Ping, Any], Ping]]:
    return [(job, Ping("Ada")), (job, Ping("Bob"))]


@database
class TestWhatItFinds:
    def test_a_race_is_shrunk_and_can_be_replayed(self, declare: Declarations) -> None:
        jobs = of_two(declare(book_carelessly))

        with pytest.raises(SimulationFailed, match="What must hold does not") as failed:
            simulate_jobs(jobs, invariant=sold_once, faults=())

        replay: Any = failed.value.meta["replay"]
        text = str(failed.value)
        assert 1 <= len(replay) <= 3
        assert f"replay={replay}" in text
        assert " works and stops after SELECT" in text
        assert isinstance(failed.value, AssertionError)
        with pytest.raises(SimulationFailed, match="What must hold does not"):
            simulate_jobs(jobs, invariant=sold_once, faults=(), replay=replay)
        assert (Order.objects.count(), JobRow.objects.count()) == (0, 0)

    def test_the_same_seed_finds_the_same(self, declare: Declarations) -> None:
        jobs = of_two(declare(book_carelessly))
        found = []
        for _ in range(2):
            with pytest.raises(SimulationFailed) as failed:
                simulate_jobs(jobs, invariant=sold_once, faults=())
            found.append(failed.value.meta)

        assert found[0] == found[1]

    @pytest.mark.parametrize("fault", ["kill", "stall"])
    def test_an_effect_that_is_repeated_after_a_fault(
        self, declare: Declarations, fault: Fault
    ) -> None:
        told = Calls()
        job = declare(lambda run: run.step("charge", told("charge")))

        with pytest.raises(SimulationFailed, match="charged twice"):
            simulate_jobs(
                [(job, Ping("a"))],
                invariant=lambda: never(len(told) > 1, "charged twice"),
                effects=told,
                faults=[fault],
                runs=50,
            )

    def test_what_a_cancelled_job_has_left_behind(self, declare: Declarations) -> None:
        told = Calls()

        def body(run: Run[Ping]) -> None:
            run.step("open", told("open"))
            run.step("close", told("close"))

        with pytest.raises(SimulationFailed, match=r"left open(.|\n)*operator cancels"):
            simulate_jobs(
                [(declare(body), Ping("a"))],
                invariant=lambda: None,
                outcome=lambda: never(told == ["open"], "left open"),
                effects=told,
                faults=["cancel"],
            )

    @pytest.mark.counts_claims
    def test_a_write_beside_a_step_that_a_drain_repeats(self, declare: Declarations) -> None:
        def body(run: Run[Ping]) -> None:
            sell(f"{run.input.key} {sold()}")
            run.step("first", lambda: None)
            run.step("second", lambda: None)

        with pytest.raises(SimulationFailed, match="is told to stop"):
            simulate_jobs(
                [(declare(body), Ping("a"))], invariant=sold_once, workers=1, faults=["drain"]
            )

    def test_jobs_that_never_end(
        self, declare: Declarations, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ultimate_jobs.testing.simulation.MOST_DECISIONS", 40)
        monkeypatch.setattr("ultimate_jobs.testing.simulation.MOST_REPLAYS", 2)

        def body(run: Run[Ping]) -> None:
            for number in range(10_000):
                run.sleep(f"sleep-{number}", "1d")

        with pytest.raises(SimulationFailed, match="never come to an end"):
            simulate_jobs([(declare(body), Ping("a"))], invariant=lambda: None, workers=1)


@database
class TestWhatHolds:
    def test_an_atomic_step_is_done_once_whatever_happens(self, declare: Declarations) -> None:
        report = simulate_jobs(
            of_two(declare(book)),
            workers=3,
            invariant=lambda: sold() == done_atomics(),
            outcome=lambda: sold() >= JobRow.objects.filter(state="done").count(),
            runs=8,
        )

        assert report.runs == 8
        assert report.decisions > 100

    def test_sleeps_waits_and_async_bodies(self, declare: Declarations) -> None:
        async def body(run: AsyncRun[Ping]) -> str:
            await run.atomic("sell", lambda: sell(str(run.job_id)))
            await run.sleep("1d")
            found = await run.wait_for_event("paid", "paid", schema=str, timeout="7d")
            return found or "nothing"

        simulate_jobs(
            of_two(declare(body)),  # type: ignore[arg-type]
            invariant=lambda: sold() <= 2,
            outcome=lambda: results() == {"yes"},
            meanwhile=lambda: publish_event("paid", "yes"),
            faults=("kill", "stall", "drain"),
            runs=3,
        )


def done_atomics() -> int:
    return JobStep.objects.filter(name="sell", status="completed").count()


def results() -> set[Any]:
    return set(JobRow.objects.values_list("result", flat=True))


def never(broken: bool, what: str) -> None:  # noqa: FBT001 - a condition
    assert not broken, what


@database
@pytest.mark.parametrize("of", [{"workers": 0}, {"runs": 0}])
def test_a_simulation_of_nothing_is_refused(declare: Declarations, of: Any) -> None:
    with pytest.raises(InvariantError, match="at least one"):
        simulate_jobs([(declare(), Ping("a"))], invariant=lambda: None, **of)


@database
def test_an_error_of_a_test_comes_through(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        pytest.fail("the test itself")

    with pytest.raises(pytest.fail.Exception, match="the test itself"):
        simulate_jobs([(declare(body), Ping("a"))], invariant=lambda: None)


class InATestCase(TestCase):
    def test_it_runs_in_the_transaction_of_the_test(self) -> None:
        sell("of the test")
        with declared(book) as job:
            simulate_jobs([(job, Ping("a"))], invariant=lambda: 1 <= sold() <= 2, runs=2)
        assert sold() == 1


class InATransactionTestCase(TransactionTestCase):
    def test_it_runs_without_one(self) -> None:
        with declared(book) as job:
            simulate_jobs([(job, Ping("a"))], invariant=sold_once, runs=2)
        assert sold() == 0
