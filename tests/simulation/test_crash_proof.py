"""crash_proof: what survives a kill at every statement passes, what does not is told."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from django.test import TestCase, TransactionTestCase

from testproject.shop.models import Order
from tests.builders import Declarations, Ping, declared
from tests.steps.runs import TWICE, Calls
from ultimate_jobs import AsyncRun, Job, Retry, Run, publish_event
from ultimate_jobs.errors import CrashDiverged
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.testing.crashes import crash_proof

pytestmark = pytest.mark.counts_claims
database = pytest.mark.django_db


def orders() -> list[str]:
    return sorted(Order.objects.values_list("reference", flat=True))


def an_order(reference: str) -> str:
    return Order.objects.create(reference=reference, amount=Decimal(5)).reference


class Gateway(dict[str, int]):
    """A provider that knows its keys: one charge for each, however often it is asked."""

    def charge(self, key: str) -> str:
        self.setdefault(key, 1)
        return key


@database
class TestWhatItCompares:
    def test_a_job_that_is_right_passes_and_leaves_nothing(self, declare: Declarations) -> None:
        gateway = Gateway()

        def body(run: Run[Ping]) -> str:
            run.step("charge", lambda: gateway.charge("charge"))
            run.atomic("order", lambda: an_order("first"))
            run.sleep("3d")
            run.atomic("late", lambda: an_order("second"))
            return "sold"

        report = crash_proof(declare(body), Ping("a"), effects=gateway, ledger=orders)

        assert report.ledger["state"] == "done"
        assert report.ledger["ledger"] == ["first", "second"]
        statements = [m.statement for m in report.moments if m.side == "before"]
        assert statements[:2] == ["queue/claim", "steps/put of 'charge' (completed)"]
        assert statements.count("COMMIT") == 2
        assert statements[-1] == "queue/settle_done"
        assert (Order.objects.count(), JobRow.objects.count()) == (0, 0)

    def test_an_effect_that_a_plain_step_doubles_is_told(self, declare: Declarations) -> None:
        told = Calls()
        job = declare(lambda run: run.step("charge", told("charge")))

        with pytest.raises(CrashDiverged) as failed:
            crash_proof(job, Ping("a"), effects=told)

        text = str(failed.value)
        assert "before steps/put of 'charge' (completed) (statement 2)" in text
        assert "undisturbed: [['charge']]" in text
        assert "killed:      [['charge', 'charge']]" in text
        assert failed.value.meta["moments"] == [
            "before steps/put of 'charge' (completed) (statement 2)"
        ]
        assert isinstance(failed.value, AssertionError)

    def test_rows_written_beside_steps_are_doubled(self, declare: Declarations) -> None:
        job = declare(lambda run: an_order("loose"))

        with pytest.raises(CrashDiverged, match="loose"):
            crash_proof(job, Ping("a"), ledger=orders)

    def test_a_transaction_that_was_open_is_undone(self, declare: Declarations) -> None:
        def body(run: Run[Ping]) -> None:
            if Order.objects.exists():
                return
            with transaction.atomic():
                an_order("one")
                with transaction.atomic():
                    an_order("two")

        report = crash_proof(declare(body), Ping("a"), ledger=orders)

        assert report.ledger["ledger"] == ["one", "two"]

    def test_a_body_that_swallows_its_death_writes_nothing_more(
        self, declare: Declarations
    ) -> None:
        def body(run: Run[Ping]) -> None:
            try:
                with transaction.atomic(), suppress(BaseException):
                    an_order("in vain")
                run.step("first", lambda: None)
            except BaseException:  # noqa: BLE001 - what it must not be able to do
                an_order("from beyond")
            Order.objects.all().delete()

        report = crash_proof(declare(body), Ping("a"), ledger=orders)

        assert report.ledger["ledger"] == []

    def test_what_waits_for_a_commit_is_lost_between_the_two(self, declare: Declarations) -> None:
        mails = Calls()

        def sell() -> None:
            an_order("first")
            transaction.on_commit(mails("mail"))

        job = declare(lambda run: run.atomic("sell", sell))

        with pytest.raises(CrashDiverged, match="Killed after COMMIT") as failed:
            crash_proof(job, Ping("a"), effects=mails, ledger=orders)

        assert len(failed.value.meta["moments"]) == 1  # type: ignore[arg-type]

    def test_what_it_enqueues_runs_as_well(self, declare: Declarations) -> None:
        child = declare(lambda run: run.atomic("order", lambda: an_order("child")))

        def body(run: Run[Ping]) -> None:
            run.atomic("enqueue", lambda: str(child.enqueue(Ping("child")).id))

        report = crash_proof(declare(body), Ping("a"), ledger=orders)

        assert report.ledger["ledger"] == ["child"]

    def test_a_wait_goes_on_with_what_happens_meanwhile(self, declare: Declarations) -> None:
        def body(run: Run[Ping]) -> Any:
            run.step("before", lambda: None)
            return run.wait_for_event("paid", "order.paid", schema=dict, timeout="7d")

        report = crash_proof(
            declare(body),
            Ping("a"),
            meanwhile=lambda: publish_event("order.paid", {"amount": 7}),
        )

        assert report.ledger["result"] == {"amount": 7}

    def test_a_wait_that_nothing_ends_times_out_without_a_detour(
        self, declare: Declarations
    ) -> None:
        def body(run: Run[Ping]) -> Any:
            return run.wait_for_event("paid", "order.paid", schema=dict, timeout="7d")

        report = crash_proof(declare(body), Ping("a"))

        assert report.ledger["result"] is None
        assert len(report.moments) < 40

    def test_async_bodies(self, declare: Declarations) -> None:
        told = Calls()

        async def body(run: AsyncRun[Ping]) -> None:
            await run.atomic("order", lambda: an_order("first"))
            await run.sleep("1h")
            await run.step("charge", told("charge"))

        with pytest.raises(CrashDiverged) as failed:
            crash_proof(declare(body), Ping("a"), effects=told, ledger=orders)  # type: ignore[arg-type]

        assert failed.value.meta["moments"] == [
            "before steps/put of 'charge' (completed) (statement 8)"
        ]


@database
class TestSagas:
    def test_a_run_that_fails_for_good_is_undone(self, declare: Declarations) -> None:
        world: dict[str, int] = {}

        def fail() -> None:
            raise ZeroDivisionError

        def body(run: Run[Ping]) -> None:
            run.step(
                "charge",
                lambda: world.update(charged=1),
                compensate=lambda charge: world.update(charged=0),
            )
            run.step("ship", fail)

        job = declare(body, retry=TWICE, compensates=True)
        report = crash_proof(job, Ping("a"), effects=world)

        assert report.ledger["state"] == "dead"
        assert report.ledger["effects"] == [{"charged": 0}]


@database
class TestAtMostOnce:
    def charging(self, told: Calls, declare: Declarations) -> Job[Ping, Any]:
        def body(run: Run[Ping]) -> str:
            run.step("charge", told("charge"), once=True)
            run.step("after", lambda: None)
            return "charged"

        return declare(body)

    def test_a_run_may_end_in_doubt_and_has_done_no_more(self, declare: Declarations) -> None:
        told = Calls()

        report = crash_proof(self.charging(told, declare), Ping("a"), effects=told)

        assert [str(moment) for moment in report.in_doubt] == [
            "after steps/put of 'charge' (started) (statement 2)",
            "before steps/put of 'charge' (completed) (statement 3)",
        ]

    def test_with_somebody_who_looks_it_up_it_ends_as_if_nothing_had_been(
        self, declare: Declarations
    ) -> None:
        told = Calls()

        report = crash_proof(
            self.charging(told, declare),
            Ping("a"),
            effects=told,
            resolve=lambda step: step in told,
        )

        assert report.in_doubt == []

    def test_in_doubt_is_no_excuse_for_a_doubled_effect(self, declare: Declarations) -> None:
        told = Calls()

        def body(run: Run[Ping]) -> None:
            told("loose")()
            run.step("charge", told("charge"), once=True)

        with pytest.raises(CrashDiverged, match="loose"):
            crash_proof(declare(body), Ping("a"), effects=told)


@database
class TestWhatCannotPass:
    def test_one_attempt_does_not_survive(self, declare: Declarations) -> None:
        job = declare(
            lambda run: run.atomic("order", lambda: an_order("x")), retry=Retry(attempts=1)
        )

        with pytest.raises(CrashDiverged, match="undisturbed: 'done'"):
            crash_proof(job, Ping("a"), ledger=orders)

    def test_a_job_that_takes_another_way_each_time(self, declare: Declarations) -> None:
        times = iter(range(10_000))

        def body(run: Run[Ping]) -> None:
            run.step(f"step-{next(times)}", lambda: None)

        with pytest.raises(CrashDiverged, match="does not take the same way twice"):
            crash_proof(declare(body), Ping("a"))

    def test_a_run_that_never_ends(
        self, declare: Declarations, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ultimate_jobs.testing.processes.MOST_MOVES", 5)

        def body(run: Run[Ping]) -> None:
            for number in range(10_000):
                run.sleep(f"sleep-{number}", "1d")

        with pytest.raises(CrashDiverged, match="has not ended"):
            crash_proof(declare(body), Ping("a"))


class InATestCase(TestCase):
    def test_it_runs_in_the_transaction_of_the_test(self) -> None:
        an_order("of the test")
        with declared(lambda run: run.atomic("order", lambda: an_order("x"))) as job:
            report = crash_proof(job, Ping("a"), ledger=orders)
        assert report.ledger["ledger"] == ["of the test", "x"]
        assert orders() == ["of the test"]


class InATransactionTestCase(TransactionTestCase):
    def test_it_runs_without_one(self) -> None:
        with declared(lambda run: run.atomic("order", lambda: an_order("x"))) as job:
            report = crash_proof(job, Ping("a"), ledger=orders)
        assert report.ledger["ledger"] == ["x"]
        assert orders() == []
