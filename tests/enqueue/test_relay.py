"""The relay: what was committed is published once, whoever else is at work and whatever is refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from math import ceil

import pytest
from django.db import transaction
from django.db.models import F
from pytest_django import DjangoAssertNumQueries

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    a_job,
    live,
    relay_all,
    second_connection,
    sql,
    staged,
    wait_until,
)
from ultimate_jobs import Job
from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.records import RelayPass
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.models import Job as JobRow, OutboxEntry
from ultimate_jobs.operate.inspection import show_job

pytestmark = pytest.mark.django_db(transaction=True)


def a_relay() -> Relay:
    return Relay(get_driver(), get_settings())


def stage(handle: Job[Ping, object], *keys: str) -> list[OutboxEntry]:
    with transaction.atomic():
        answers = handle.enqueue_many([Ping(key) for key in keys])
    return [OutboxEntry.objects.get(id=answer.id) for answer in answers]


def stage_rows(handle: Job[Ping, object], count: int) -> None:
    with transaction.atomic():
        handle.enqueue_many([Ping(f"k-{n:05}") for n in range(count)])


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Let the database refuse every job of one name, as a constraint of an operator's might."""
    sql(
        f"""
        CREATE FUNCTION refuse_a_name() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF new.name = '{name}' THEN
                RAISE EXCEPTION 'this name is refused';
            END IF;
            RETURN new;
        END $$;
        CREATE TRIGGER refuse_a_name BEFORE INSERT ON x_jobs
        FOR EACH ROW EXECUTE FUNCTION refuse_a_name();
        """
    )
    try:
        yield
    finally:
        sql("DROP TRIGGER refuse_a_name ON x_jobs; DROP FUNCTION refuse_a_name();")


# A pass


def test_a_pass_moves_the_row_as_it_was_staged_and_leaves_no_second_copy(
    declare: Declarations,
) -> None:
    note = declare(queue="mail")
    with transaction.atomic():
        note.enqueue(
            Ping("k", load={"n": [1, "é"]}),
            priority=-3,
            delay="1h",
            tenant="t-1",
            enqueued_by="u-1",
            traceparent=f"00-{'a' * 32}-{'b' * 16}-01",
        )
    entry = OutboxEntry.objects.get()

    assert a_relay().tick() == RelayPass(seen=1, published=1)

    job = JobRow.objects.get()
    carried = [f.attname for f in OutboxEntry._meta.fields if hasattr(job, f.attname)]
    assert set(carried) >= {"id", "run_id", "input", "run_at", "priority", "traceparent"}
    for column in set(carried) - {"last_error"}:
        assert getattr(job, column) == getattr(entry, column), column
    assert (job.state, job.attempt, job.claim) == ("delayed", 0, 0)
    assert job.created_at == entry.staged_at
    assert not OutboxEntry.objects.exists()


@pytest.mark.slow
def test_a_pass_is_one_statement_however_many_rows_it_moves(
    declare: Declarations, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    stage_rows(declare(), 10_000)
    relay = a_relay()

    with django_assert_num_queries(1):
        assert relay.tick() == RelayPass(seen=500, published=500)
    with django_assert_num_queries(ceil(9_500 / 500) + 1):
        assert relay.drain() == 9_500

    assert JobRow.objects.count() == 10_000
    assert get_driver().outbox.pending() == 0


def test_a_relay_that_dies_in_the_middle_of_a_pass_leaves_the_rows_for_the_next(
    declare: Declarations,
) -> None:
    note = declare()
    stage(note, "a", "b")

    with transaction.atomic():
        assert get_driver().outbox.relay(10).published == 2
        transaction.set_rollback(True)

    assert not JobRow.objects.exists()
    assert relay_all() == 2


# Answered by a job that is there already


def test_a_row_whose_key_a_live_job_holds_is_kept_as_a_receipt_that_names_the_job(
    declare: Declarations,
) -> None:
    note = declare()
    (entry,) = stage(note, "k")
    holder = a_job(name=note.name, idempotency_key="k")

    assert a_relay().tick() == RelayPass(seen=1, deduped=1)

    entry.refresh_from_db()
    assert entry.published_at is not None
    assert entry.job_id == holder.id
    assert show_job(str(entry.id))["id"] == str(holder.id)
    assert a_relay().tick() == RelayPass()


def test_showing_a_staged_id_answers_the_row_that_waits(declare: Declarations) -> None:
    note = declare()
    (entry,) = stage(note, "k")

    shown = show_job(str(entry.id))

    assert (shown["id"], shown["state"]) == (str(entry.id), "staged")
    relay_all()
    assert show_job(str(entry.id))["state"] == "ready"


@pytest.mark.parametrize("state", ["ready", "done", "dead"])
def test_publishing_the_same_staged_id_again_adds_no_row_even_when_the_job_has_ended(
    declare: Declarations, state: str
) -> None:
    note = declare()
    (entry,) = stage(note, "k")
    relay_all()
    JobRow.objects.update(state=state)
    OutboxEntry.objects.bulk_create([entry])

    assert a_relay().tick() == RelayPass(seen=1, deduped=1)

    assert JobRow.objects.get().state == state
    assert not staged()


# Rows the queue refuses


def test_a_refused_row_is_named_set_aside_and_holds_nobody_up(
    declare: Declarations, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = declare(), declare(name="tests.poison")
    stage(good, "a", "b")
    (poison,) = stage(bad, "p")
    stage(good, "c", "d")

    with refusing("tests.poison"), caplog.at_level(logging.WARNING):
        assert a_relay().tick() == RelayPass(seen=4, published=4, poisoned=1)

    assert [job.idempotency_key for job in live(good.name)] == ["a", "b", "c", "d"]
    poison.refresh_from_db()
    assert poison.published_at is None
    assert poison.refusals == 1
    assert "this name is refused" in (poison.last_error or "")
    assert "jobs.outbox.publish-failed" in caplog.text
    assert str(poison.id) in caplog.text
    assert "tests.poison" in caplog.text


def test_several_refused_rows_are_all_found_in_one_pass(declare: Declarations) -> None:
    good, bad = declare(), declare(name="tests.poison")
    stage(bad, "p-1")
    stage(good, *(f"k-{n}" for n in range(20)))
    stage(bad, "p-2", "p-3")

    with refusing("tests.poison"):
        assert a_relay().tick() == RelayPass(seen=20, published=20, poisoned=3)
        OutboxEntry.objects.update(retry_at=F("retry_at") + timedelta(hours=1))
        assert a_relay().tick() == RelayPass()

    assert [row.refusals for row in staged()] == [1, 1, 1]


def test_a_refused_row_is_found_by_halving_not_by_trying_each(
    declare: Declarations, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    good, bad = declare(), declare(name="tests.poison")
    stage(good, *(f"k-{n:03}" for n in range(255)))
    stage(bad, "p")

    with refusing("tests.poison"), django_assert_max_num_queries(20):
        assert a_relay().tick() == RelayPass(seen=255, published=255, poisoned=1)


# The loop


def test_the_loop_publishes_what_is_staged_while_it_runs_and_stops_when_told(
    declare: Declarations,
) -> None:
    note = declare()
    relay = a_relay()
    running = second_connection(relay.run)

    stage(note, "a")
    wait_until(lambda: live(note.name))
    stage(note, "b")
    wait_until(lambda: len(live(note.name)) == 2)

    relay.stop()
    running.result(PATIENCE)


def test_the_loop_survives_a_pass_that_fails_and_says_so(
    declare: Declarations, caplog: pytest.LogCaptureFixture
) -> None:
    note = declare()
    stage(note, "a")
    relay = a_relay()
    sql("ALTER TABLE x_outbox RENAME TO x_outbox_gone")
    try:
        with caplog.at_level(logging.ERROR):
            running = second_connection(relay.run)
            wait_until(lambda: "jobs.outbox.tick-failed" in caplog.text)
    finally:
        sql("ALTER TABLE x_outbox_gone RENAME TO x_outbox")
    wait_until(lambda: live(note.name))

    relay.stop()
    running.result(PATIENCE)


def test_draining_answers_how_many_were_published(declare: Declarations) -> None:
    note = declare()
    stage(note, "a", "b", "c")
    a_job(name=note.name, idempotency_key="b")

    assert a_relay().drain() == 2
