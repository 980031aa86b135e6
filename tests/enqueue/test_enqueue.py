"""What an enqueue answers, what it writes, and in how many statements."""

from __future__ import annotations

import zoneinfo
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction
from pytest_django import DjangoAssertNumQueries, Settings

from testproject.shop.models import Order
from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    live,
    relay_all,
    rolled_back,
    second_connection,
    sql,
    staged,
    work_off,
)
from ultimate_jobs import Actor, Retry, Run, acting_as, run_to_completion
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import Enqueued
from ultimate_jobs.errors import Aborted
from ultimate_jobs.models import Job as JobRow, OutboxEntry
from ultimate_jobs.process.cancel import CancelToken, under

pytestmark = pytest.mark.django_db(transaction=True)

TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


# The answer


def test_the_answer_names_the_job_and_its_run(declare: Declarations) -> None:
    answer = declare().enqueue(Ping("k"))

    job = JobRow.objects.get()
    assert (answer.id, answer.run_id, answer.deduped) == (job.id, job.run_id, False)
    assert isinstance(answer.id, UUID)
    assert answer.id != answer.run_id


def test_the_answer_cannot_be_changed(declare: Declarations) -> None:
    answer = declare().enqueue(Ping("k"))

    with pytest.raises(FrozenInstanceError):
        answer.deduped = True  # type: ignore[misc]


@pytest.mark.parametrize("inside", [False, True], ids=["direct", "in a transaction"])
def test_a_caller_can_name_the_run(declare: Declarations, *, inside: bool) -> None:
    note, mine = declare(), new_id()

    if inside:
        with transaction.atomic():
            answer = note.enqueue(Ping("k"), run_id=str(mine))
        relay_all()
    else:
        answer = note.enqueue(Ping("k"), run_id=mine)

    assert answer.run_id == mine
    assert JobRow.objects.get().run_id == mine


def test_a_batch_answers_in_the_order_of_its_inputs(declare: Declarations) -> None:
    note = declare()
    note.enqueue(Ping("c"))
    keys = ["e", "b", "c", "a", "d"]

    answers = note.enqueue_many(Ping(key) for key in keys)

    ids = {job.idempotency_key: job.id for job in live(note.name)}
    assert [answer.id for answer in answers] == [ids[key] for key in keys]
    assert [answer.deduped for answer in answers] == [False, False, True, False, False]


ODD = ["NULL", "null", '"', "\\", '\\"', "a,b", "{a}", "a\nb", " ", "ünï", "'", "%s", "\u2028"]


@pytest.mark.parametrize("inside", [False, True], ids=["direct", "in a transaction"])
def test_a_batch_keeps_every_text_as_it_is(declare: Declarations, *, inside: bool) -> None:
    note = declare()
    pings = [Ping(text, load=[text, ""]) for text in ODD]

    if inside:
        with transaction.atomic():
            note.enqueue_many(pings)
        relay_all()
    else:
        note.enqueue_many(pings)

    rows = {job.idempotency_key: job.input for job in live(note.name)}
    assert rows == {text: {"key": text, "org": "acme", "load": [text, ""]} for text in ODD}


@pytest.mark.parametrize("inside", [False, True], ids=["direct", "in a transaction"])
def test_a_batch_is_answered_with_new_rows_held_keys_and_repeated_ones_in_its_order(
    declare: Declarations, *, inside: bool
) -> None:
    note = declare()
    held = note.enqueue(Ping("held"))

    def enqueue() -> list[Enqueued]:
        return note.enqueue_many([Ping("a"), Ping("held"), Ping("b"), Ping("a")])

    if inside:
        with transaction.atomic():
            answers = enqueue()
        relay_all()
    else:
        answers = enqueue()

    rows = {job.idempotency_key: (job.id, job.run_id) for job in live(note.name)}
    assert [(a.id, a.run_id) for a in answers] == [rows[key] for key in ("a", "held", "b", "a")]
    assert [answer.deduped for answer in answers] == [False, True, False, True]
    assert answers[1].id == held.id


def test_an_empty_batch_is_answered_with_nothing_and_asks_the_database_nothing(
    declare: Declarations, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        assert declare().enqueue_many([]) == []


# The row


@pytest.mark.parametrize("inside", [False, True], ids=["direct", "in a transaction"])
def test_every_option_reaches_the_row(declare: Declarations, *, inside: bool) -> None:
    note = declare(retry=Retry(attempts=7))
    order = Order.objects.create(reference="a-1", amount=Decimal(1))
    due = datetime(2031, 5, 4, 3, 2, 1, 654321, tzinfo=UTC)

    def enqueue() -> None:
        note.enqueue(
            Ping("k", load=[1]),
            run_at=due,
            priority=5,
            queue="mail",
            tenant="t-1",
            enqueued_by="u-1",
            traceparent=TRACE,
            related=order,
        )

    if inside:
        with transaction.atomic():
            enqueue()
        relay_all()
    else:
        enqueue()

    job = JobRow.objects.get()
    assert job.name == note.name
    assert job.input == {"key": "k", "org": "acme", "load": [1]}
    assert job.idempotency_key == "k"
    assert (job.state, job.attempt, job.max_attempts, job.claim) == ("delayed", 0, 7, 0)
    assert (job.run_at, job.priority, job.queue) == (due, 5, "mail")
    assert (job.tenant_id, job.enqueued_by, job.traceparent) == ("t-1", "u-1", TRACE)
    assert job.related_type == ContentType.objects.get_for_model(Order)
    assert job.related_id == str(order.pk)
    assert (job.last_error, job.progress, job.result, job.claimed_by) == (None, None, None, None)


def test_without_options_the_row_takes_what_the_job_declares(declare: Declarations) -> None:
    declare(queue="reports").enqueue(Ping("k"))

    job = JobRow.objects.get()
    assert (job.queue, job.priority, job.state) == ("reports", 0, "ready")
    assert (job.tenant_id, job.enqueued_by, job.traceparent) == (None, None, None)
    assert (job.related_type_id, job.related_id) == (None, None)


def test_a_trace_context_without_a_span_is_not_stored(declare: Declarations) -> None:
    declare().enqueue(Ping("k"), traceparent=f"00-{'a' * 32}-{'0' * 16}-00")

    assert JobRow.objects.get().traceparent is None


@pytest.mark.parametrize("priority", [-(2**31), -1, 0, 2**31 - 1])
def test_a_priority_has_32_bits(declare: Declarations, priority: int) -> None:
    declare().enqueue(Ping("k"), priority=priority)

    assert JobRow.objects.get().priority == priority


@pytest.mark.parametrize("queue", ["q" * 200, "a b", "it's; DROP TABLE x_jobs", 'Q"uéue', "%s"])
def test_any_storable_text_of_200_characters_is_a_queue(declare: Declarations, queue: str) -> None:
    note = declare()
    note.enqueue(Ping("a"), queue=queue)
    with transaction.atomic():
        note.enqueue(Ping("b"), queue=queue)
    relay_all()

    assert {job.queue for job in live(note.name)} == {queue}


def test_the_idempotency_key_sees_the_input_as_its_body_will_see_it(
    declare: Declarations,
) -> None:
    """A key computed from what the caller passed would differ from one computed later."""
    note = declare(idempotency_key=lambda i: f"{type(i.load).__name__}:{i.load}")

    note.enqueue(Ping("k", load=(1, 2)))
    note.enqueue(Ping("k", load=Decimal("1.10")))

    assert [job.idempotency_key for job in live(note.name)] == ["list:[1, 2]", "str:1.10"]


# When it runs


def test_a_delay_counts_from_the_databases_clock(declare: Declarations) -> None:
    note = declare()
    ((before,),) = sql("SELECT clock_timestamp()")
    note.enqueue(Ping("a"), delay="90s")
    with transaction.atomic():
        note.enqueue(Ping("b"), delay=timedelta(seconds=90))
    ((after,),) = sql("SELECT clock_timestamp()")
    relay_all()

    for job in live(note.name):
        assert before + timedelta(seconds=90) <= job.run_at <= after + timedelta(seconds=90)
        assert job.state == "delayed"


def test_a_delay_inside_a_long_transaction_counts_from_the_call(declare: Declarations) -> None:
    """now() stands still in a transaction; a delay must not have passed before it began."""
    note = declare()
    with transaction.atomic():
        ((began,),) = sql("SELECT now()")
        sql("SELECT pg_sleep(0.05)")
        note.enqueue(Ping("k"), delay="1h")

    assert staged()[0].run_at >= began + timedelta(hours=1, milliseconds=50)


@pytest.mark.parametrize("delay", [0, 0.0, "0s", timedelta(0)])
def test_no_delay_at_all_is_due_at_once(declare: Declarations, delay: Any) -> None:
    declare().enqueue(Ping("k"), delay=delay)

    assert JobRow.objects.get().state == "ready"


def test_an_instant_in_the_past_is_due_at_once(declare: Declarations) -> None:
    past = datetime(2001, 1, 1, tzinfo=UTC)
    declare().enqueue(Ping("k"), run_at=past)

    job = JobRow.objects.get()
    assert (job.state, job.run_at) == ("ready", past)


def test_an_instant_of_another_zone_is_the_same_instant(declare: Declarations) -> None:
    zone = zoneinfo.ZoneInfo("Asia/Tokyo")
    declare().enqueue(Ping("k"), run_at=datetime(2031, 1, 1, 9, tzinfo=zone))

    assert JobRow.objects.get().run_at == datetime(2031, 1, 1, tzinfo=UTC)


def test_a_naive_instant_is_local_time_in_a_project_without_time_zones(
    declare: Declarations, settings: Settings
) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    declare().enqueue(Ping("k"), run_at=datetime(2031, 1, 1, 9))  # noqa: DTZ001 - naive on purpose

    ((epoch,),) = sql("SELECT extract(epoch FROM run_at) FROM x_jobs")
    assert epoch == datetime(2031, 1, 1, tzinfo=UTC).timestamp()


# Statements


def test_an_enqueue_is_one_statement(
    declare: Declarations, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    note = declare()
    for ping in (Ping("new"), Ping("new")):
        with django_assert_num_queries(1):
            note.enqueue(ping)


def test_an_enqueue_in_a_transaction_is_one_statement(
    declare: Declarations, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    note = declare()
    with transaction.atomic():
        for ping in (Ping("new"), Ping("new")):
            with django_assert_num_queries(1):
                note.enqueue(ping)


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True], ids=["direct", "in a transaction"])
def test_a_batch_is_one_statement_per_thousand(
    declare: Declarations, django_assert_num_queries: DjangoAssertNumQueries, *, inside: bool
) -> None:
    note = declare()
    pings = [Ping(f"k-{n}") for n in range(10_000)]

    if inside:
        with transaction.atomic(), django_assert_num_queries(10):
            answers = note.enqueue_many(pings)
        assert OutboxEntry.objects.count() == 10_000
    else:
        with django_assert_num_queries(10):
            answers = note.enqueue_many(pings)
        assert JobRow.objects.count() == 10_000
    assert len({answer.id for answer in answers}) == 10_000


@pytest.mark.parametrize(("count", "statements"), [(1, 1), (999, 1), (1_000, 1), (1_001, 2)])
def test_the_thousandth_input_still_fits_into_the_first_statement(
    declare: Declarations,
    django_assert_num_queries: DjangoAssertNumQueries,
    count: int,
    statements: int,
) -> None:
    note = declare()
    with django_assert_num_queries(statements):
        note.enqueue_many([Ping(f"k-{n}") for n in range(count)])


def test_no_payload_is_in_the_text_of_a_statement(declare: Declarations) -> None:
    """The server shows running statements to every role that may look."""
    note = declare()
    with transaction.atomic():
        note.enqueue(Ping("k", load="a-secret-value"))
        ((pid,),) = sql("SELECT pg_backend_pid()")
        note.enqueue(Ping("l", load="a-secret-value"))
        seen = second_connection(
            lambda: sql("SELECT query FROM pg_stat_activity WHERE pid = %s", [pid])
        ).result(PATIENCE)

    assert "Stage jobs" in seen[0][0]
    assert "a-secret-value" not in seen[0][0]


# On behalf of an actor


def test_an_actors_tenant_and_id_go_on_the_row(declare: Declarations) -> None:
    note = declare()
    note.enqueue_as(Actor(id="u-1", org="t-1"), Ping("k"))

    job = JobRow.objects.get()
    assert (job.tenant_id, job.enqueued_by) == ("t-1", "u-1")


@pytest.mark.parametrize("actor", [None, Actor(), Actor(id="u-1", org="")])
def test_an_actor_without_a_tenant_puts_none_on_the_row(
    declare: Declarations, actor: Actor | None
) -> None:
    with acting_as(Actor(id="somebody", org="else")):
        declare().enqueue_as(actor, Ping("k"))

    job = JobRow.objects.get()
    assert job.tenant_id is None
    assert job.enqueued_by == (actor.id if actor else None)


def test_the_actor_at_work_is_the_enqueuer_by_default(declare: Declarations) -> None:
    note = declare()
    with acting_as(Actor(id="u-1", org="t-1")):
        note.enqueue(Ping("a"))
        note.enqueue(Ping("b"), enqueued_by="somebody-else")

    jobs = live(note.name)
    assert [(job.tenant_id, job.enqueued_by) for job in jobs] == [
        ("t-1", "u-1"),
        ("t-1", "somebody-else"),
    ]


# From async code


def test_async_code_enqueues_with_aenqueue(declare: Declarations) -> None:
    note = declare()

    async def handler() -> list[bool]:
        first = await note.aenqueue(Ping("a"), priority=2)
        again = await note.aenqueue(Ping("a"))
        batch = await note.aenqueue_many([Ping("a"), Ping("b")])
        other = await note.aenqueue_as(Actor(org="t-1"), Ping("a"))
        return [first.deduped, again.deduped, *(b.deduped for b in batch), other.deduped]

    assert async_to_sync(handler)() == [False, True, True, False, False]
    assert [(job.idempotency_key, job.tenant_id) for job in live(note.name)] == [
        ("a", None),
        ("a", "t-1"),
        ("b", None),
    ]


def test_a_blocking_enqueue_in_async_code_is_refused_by_django_before_it_blocks(
    declare: Declarations,
) -> None:
    note = declare()

    async def handler() -> None:
        note.enqueue(Ping("a"))

    with pytest.raises(SynchronousOnlyOperation):
        async_to_sync(handler)()
    assert not JobRow.objects.exists()


# From a body


def test_a_body_that_enqueues_its_own_key_is_answered_with_its_own_running_job(
    declare: Declarations,
) -> None:
    answers = []

    def body(run: Run[Ping]) -> None:
        answers.append((note.enqueue(run.input), run.job_id))

    note = declare(body)
    note.enqueue(Ping("k"))
    work_off()

    ((answer, own),) = answers
    assert (answer.deduped, answer.id) == (True, own)
    assert JobRow.objects.count() == 1


def test_a_cancelled_body_cannot_enqueue_unless_the_work_must_land(declare: Declarations) -> None:
    note, token = declare(), CancelToken()
    token.abort()

    with under(token):
        with pytest.raises(Aborted):
            note.enqueue(Ping("a"))
        with pytest.raises(Aborted), transaction.atomic():
            note.enqueue_many([Ping("a")])
        with run_to_completion():
            note.enqueue(Ping("must-land"))

    assert [job.idempotency_key for job in live(note.name)] == ["must-land"]


def test_a_body_that_rolls_its_transaction_back_takes_its_enqueues_with_it(
    declare: Declarations,
) -> None:
    other = declare()

    def body(run: Run[Ping]) -> None:
        with rolled_back():
            other.enqueue(Ping("undone"))
        with transaction.atomic():
            other.enqueue(Ping("kept"))

    declare(body).enqueue(Ping("k"))
    work_off()

    assert list(JobRow.objects.filter(name=other.name).values_list("idempotency_key")) == [
        ("kept",)
    ]
