"""Progress: written seldom while a body runs, always when it ends, never for a claim that is lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.builders import Declarations, Ping, wait_until
from tests.worker.running import Gate, at_least, on_duty, work
from ultimate_jobs import Retry, Run
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.worker import held

pytestmark = pytest.mark.django_db(transaction=True)

PROGRESS = "Write how far runs have come"


def stored() -> object:
    return JobRow.objects.get().progress


def test_progress_can_be_seen_while_the_body_runs(declare: Declarations, gate: Gate) -> None:
    def body(run: Run[Ping]) -> None:
        run.progress(3, 10, "three of ten")
        gate.hold()

    ping = declare(body)
    ping.enqueue(Ping("a"))
    with on_duty(ping):
        gate.arrived()
        wait_until(stored)
        assert stored() == {"done": 3, "total": 10, "note": "three of ten"}
        gate.open()


def test_within_its_interval_progress_is_not_written_again_but_the_last_word_is_kept(
    declare: Declarations, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "PROGRESS_EVERY", 3600.0)
    second = Gate()

    def body(run: Run[Ping]) -> None:
        run.progress(0, 500)
        gate.hold()
        for n in range(500):
            run.progress(n, 500)
        second.hold()

    ping = declare(body)
    ping.enqueue(Ping("a"))
    with on_duty(ping) as duty:
        gate.arrived()
        wait_until(stored)
        gate.open()
        second.arrived()
        wait_until(at_least(len(duty.statements) + 3, duty.statements))
        assert stored() == {"done": 0, "total": 500, "note": ""}
        second.open()

    assert stored() == {"done": 499, "total": 500, "note": ""}
    assert len([text for _, text in duty.statements if PROGRESS in text]) == 1


def test_progress_is_written_again_once_its_interval_has_passed(
    declare: Declarations, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "PROGRESS_EVERY", 0.0)
    second = Gate()

    def body(run: Run[Ping]) -> None:
        run.progress(1)
        gate.hold()
        run.progress(2)
        second.hold()

    ping = declare(body)
    ping.enqueue(Ping("a"))
    with on_duty(ping):
        gate.arrived()
        wait_until(stored)
        gate.open()
        second.arrived()
        wait_until(lambda: stored() == {"done": 2, "total": None, "note": ""})
        second.open()


def test_the_last_word_before_a_failure_is_kept(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        run.progress(1)
        run.progress(2, note="here it broke")
        raise LookupError

    ping = declare(body)
    ping.enqueue(Ping("a"))

    work(ping)

    assert JobRow.objects.get().state == "ready"
    assert stored() == {"done": 2, "total": None, "note": "here it broke"}


def test_a_note_that_cannot_be_stored_or_is_too_long_does_no_harm(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        run.progress(1, note="nul \x00 " + "x" * 5_000)

    ping = declare(body)
    ping.enqueue(Ping("a"))

    work(ping)

    row = JobRow.objects.get()
    assert row.state == "done"
    assert row.progress is not None
    assert row.progress["note"].startswith("nul \\x00 xxx")
    assert len(row.progress["note"]) <= 1_010


@pytest.mark.parametrize("number", [-1, float("nan"), float("inf")])
def test_a_number_that_cannot_be_meant_is_refused(declare: Declarations, number: float) -> None:
    ping = declare(lambda run: run.progress(number), retry=Retry(attempts=1))
    ping.enqueue(Ping("a"))

    work(ping)

    row = JobRow.objects.get()
    assert (row.state, row.progress) == ("dead", None)
    assert "X_INVARIANT" in str(row.last_error)


def test_progress_of_a_claim_that_is_lost_is_not_written(declare: Declarations, gate: Gate) -> None:
    reported = Gate()

    def body(run: Run[Ping]) -> None:
        gate.hold()
        run.progress(9)
        reported.hold()

    ping = declare(body)
    ping.enqueue(Ping("a"))
    never = timedelta(hours=3)
    with on_duty(ping, heartbeat_interval=never, visibility_timeout=2 * never) as duty:
        gate.arrived()
        JobRow.objects.update(claim=2, claimed_by="another worker", progress={"done": 1})
        gate.open()
        reported.arrived()
        wait_until(lambda: any(PROGRESS in text for _, text in duty.statements))
        reported.open()

    assert stored() == {"done": 1}
    assert (JobRow.objects.get().state, JobRow.objects.get().claim) == ("running", 2)
