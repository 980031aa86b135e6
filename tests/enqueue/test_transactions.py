"""An enqueue is a row in the caller's transaction: it lives and dies with the writes beside it."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest
from django.db import DatabaseError, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from testproject.shop.models import Order
from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    UndoError,
    claim,
    relay_all,
    rolled_back,
    second_connection,
    settings_of,
    sql,
    staged,
    work_off,
)
from ultimate_jobs import Run
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.models import Job as JobRow, OutboxEntry

pytestmark = pytest.mark.django_db(transaction=True)


def an_order(reference: str) -> Order:
    return Order.objects.create(reference=reference, amount=Decimal(10))


# What a transactional outbox makes impossible


def test_no_ghost_job_when_the_transaction_is_rolled_back(declare: Declarations) -> None:
    ran: list[str] = []
    ship = declare(lambda run: ran.append(run.input.key))

    with rolled_back():
        an_order("a-1")
        ship.enqueue(Ping("a-1"))
    work_off()

    assert ran == []
    assert not JobRow.objects.exists()
    assert not OutboxEntry.objects.exists()


def test_no_lost_job_when_the_process_dies_right_after_the_commit(declare: Declarations) -> None:
    """Nothing is left to do after the commit: no hook, no second write, no process to survive."""
    ran: list[str] = []
    ship = declare(lambda run: ran.append(run.input.key))

    def handler_that_dies() -> None:
        with transaction.atomic():
            an_order("a-1")
            ship.enqueue(Ping("a-1"))
            transaction.on_commit(lambda: (_ for _ in ()).throw(SystemExit))

    with pytest.raises(SystemExit):
        second_connection(handler_that_dies).result(PATIENCE)
    work_off()

    assert Order.objects.count() == 1
    assert ran == ["a-1"]


def test_no_double_side_effect_when_the_handler_is_retried(declare: Declarations) -> None:
    """A handler whose first try committed and whose answer was lost is called again."""
    charged: list[str] = []
    charge = declare(lambda run: charged.append(run.input.key))

    def handler() -> bool:
        with transaction.atomic():
            Order.objects.get_or_create(reference="a-1", defaults={"amount": Decimal(10)})
            return charge.enqueue(Ping("charge:a-1")).deduped

    assert [handler(), handler()] == [False, True]
    relay_all()
    assert handler() is True
    work_off()

    assert charged == ["charge:a-1"]


def test_no_worker_reads_before_the_writers_commit_is_visible(declare: Declarations) -> None:
    found: list[bool] = []
    check = declare(
        lambda run: found.append(Order.objects.filter(reference=run.input.key).exists())
    )
    written, may_commit = threading.Event(), threading.Event()

    def writer() -> None:
        with transaction.atomic():
            check.enqueue(Ping("a-1"))
            an_order("a-1")
            written.set()
            may_commit.wait(PATIENCE)

    writing = second_connection(writer)
    assert written.wait(PATIENCE)
    work_off()
    assert found == []
    assert not staged()

    may_commit.set()
    writing.result(PATIENCE)
    work_off()
    assert found == [True]


# Savepoints


def test_a_rolled_back_savepoint_takes_its_enqueue_with_it(declare: Declarations) -> None:
    ran: list[str] = []
    note = declare(lambda run: ran.append(run.input.key))

    with transaction.atomic():
        outer = note.enqueue(Ping("outer"))
        with rolled_back():
            note.enqueue(Ping("inner"))
        seen = second_connection(lambda: (JobRow.objects.count(), OutboxEntry.objects.count()))
        assert seen.result(PATIENCE) == (0, 0)
        second_connection(work_off).result(3 * PATIENCE)
        assert ran == []
    work_off()

    assert ran == ["outer"]
    assert [job.id for job in JobRow.objects.all()] == [outer.id]
    assert not OutboxEntry.objects.exists()

    again = note.enqueue(Ping("inner"))
    assert not again.deduped
    work_off()
    assert ran == ["outer", "inner"]


def test_a_rolled_back_savepoint_frees_the_key_inside_the_same_transaction(
    declare: Declarations,
) -> None:
    note = declare()

    with transaction.atomic():
        with rolled_back():
            first = note.enqueue(Ping("k"))
        second = note.enqueue(Ping("k"))

    assert not second.deduped
    assert second.id != first.id
    assert [row.id for row in staged()] == [second.id]


def test_a_rolled_back_savepoint_takes_a_whole_batch_with_it(declare: Declarations) -> None:
    note = declare()

    with transaction.atomic():
        kept = note.enqueue(Ping("outer"))
        with rolled_back():
            note.enqueue_many([Ping("a"), Ping("b"), Ping("c")])

    assert [row.id for row in staged()] == [kept.id]
    answers = note.enqueue_many([Ping("a"), Ping("b"), Ping("c")])
    assert [answer.deduped for answer in answers] == [False, False, False]


def test_a_released_savepoint_keeps_its_enqueue_for_the_outer_commit(
    declare: Declarations,
) -> None:
    note = declare()

    with transaction.atomic():
        with transaction.atomic():
            inner = note.enqueue(Ping("inner"))
        assert second_connection(OutboxEntry.objects.count).result(PATIENCE) == 0

    assert [row.id for row in staged()] == [inner.id]


# Other ways to a transaction


@pytest.mark.urls(__name__)
def test_a_view_that_raises_under_atomic_requests_leaves_no_job(
    declare: Declarations, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(name="tests.placed")
    monkeypatch.setitem(settings_of(), "ATOMIC_REQUESTS", True)
    client.raise_request_exception = False

    assert client.post("/place/", {"fail": "1"}).status_code == 500
    assert not staged()
    assert client.post("/place/").status_code == 200
    assert [row.idempotency_key for row in staged()] == ["placed"]


def place(request: HttpRequest) -> HttpResponse:
    ping = registry.get("tests.placed")
    assert ping is not None
    ping.enqueue(Ping("placed"))
    if "fail" in request.POST:
        raise UndoError
    return HttpResponse("placed")


urlpatterns = [path("place/", place)]


def test_a_hook_of_the_application_that_raises_after_the_commit_does_not_cost_the_job(
    declare: Declarations,
) -> None:
    ran: list[str] = []
    note = declare(lambda run: ran.append(run.input.key))

    def broken_hook() -> None:
        raise UndoError

    def handler() -> None:
        with transaction.atomic():
            transaction.on_commit(broken_hook)
            note.enqueue(Ping("a"))

    with pytest.raises(UndoError):
        handler()
    work_off()

    assert ran == ["a"]


def test_a_transaction_opened_by_set_autocommit_is_a_transaction_too(
    declare: Declarations,
) -> None:
    note = declare()

    transaction.set_autocommit(False)
    try:
        note.enqueue(Ping("undone"))
        transaction.rollback()
        kept = note.enqueue(Ping("kept"))
        assert second_connection(OutboxEntry.objects.count).result(PATIENCE) == 0
        transaction.commit()
    finally:
        transaction.set_autocommit(True)

    assert [row.id for row in staged()] == [kept.id]


def test_an_enqueue_in_a_broken_transaction_is_refused_by_django_before_it_is_sent(
    declare: Declarations,
) -> None:
    note = declare()

    with transaction.atomic():
        with pytest.raises(DatabaseError):
            sql("SELECT 1/0")
        with pytest.raises(DatabaseError):
            note.enqueue(Ping("a"))
        transaction.set_rollback(True)

    assert not staged()


# Identity


def test_the_ids_answered_before_the_commit_are_the_ids_of_the_job_that_runs(
    declare: Declarations,
) -> None:
    seen: list[object] = []

    def body(run: Run[Ping]) -> None:
        seen.append((run.job_id, run.run_id))

    note = declare(body)
    with transaction.atomic():
        answer = note.enqueue(Ping("a"))
    work_off()

    assert seen == [(answer.id, answer.run_id)]
    assert JobRow.objects.get().id == answer.id


def test_a_late_commit_is_published_although_later_rows_have_passed_it(
    declare: Declarations,
) -> None:
    ran: list[str] = []
    note = declare(lambda run: ran.append(run.input.key))
    opened, may_commit = threading.Event(), threading.Event()

    def late() -> None:
        with transaction.atomic():
            note.enqueue(Ping("late"))
            opened.set()
            may_commit.wait(PATIENCE)

    writing = second_connection(late)
    assert opened.wait(PATIENCE)
    for number in range(20):
        with transaction.atomic():
            note.enqueue(Ping(f"early-{number}"))
    work_off()
    assert len(ran) == 20

    may_commit.set()
    writing.result(PATIENCE)
    work_off()
    assert ran[20:] == ["late"]


def test_an_open_transaction_holds_no_worker_and_no_relay_up(declare: Declarations) -> None:
    """The staged row is invisible to others, not locked in their way."""
    note = declare()

    with transaction.atomic():
        note.enqueue(Ping("open"))

        def others() -> tuple[int, int]:
            with transaction.atomic():
                note.enqueue(Ping("other"))
            published = relay_all()
            return published, len(claim(note.name).jobs)

        assert second_connection(others).result(PATIENCE) == (1, 1)


def test_nothing_waits_for_a_hook_after_the_commit(declare: Declarations) -> None:
    note = declare()

    with transaction.atomic():
        note.enqueue(Ping("a"))
        assert transaction.get_connection().run_on_commit == []
