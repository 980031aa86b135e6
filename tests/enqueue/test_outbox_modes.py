"""Which way an enqueue goes: into the open transaction, straight to the queue, or nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import OperationalError, connections, transaction  # noqa: TID251 - a second alias
from pytest_django import Settings

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    live,
    relay_all,
    rolled_back,
    second_connection,
    settings_of,
    sql,
    staged,
    wait_until,
)
from ultimate_jobs.errors import (
    DriverUnavailable,
    InvariantError,
    OutboxNoTransaction,
    OutboxWrongDatabase,
)
from ultimate_jobs.models import Job as JobRow

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def required(settings: Settings) -> None:
    """Let the project demand a transaction."""
    settings.ULTIMATE_JOBS = {"OUTBOX": "required"}


@pytest.fixture
def other_alias(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the project a second database."""
    second = connections["default"].copy("other")
    second.connect()  # Django's test case allows no new connection to an alias it does not know
    monkeypatch.setitem(connections.databases, "other", second.settings_dict)
    connections["other"] = second
    yield "other"
    del connections["other"]
    second.close()


# Outside a transaction


def test_outside_a_transaction_a_job_is_published_at_once(declare: Declarations) -> None:
    declare().enqueue(Ping("k"))

    assert JobRow.objects.count() == 1
    assert not staged()


def test_where_a_transaction_is_required_an_enqueue_outside_one_is_refused(
    declare: Declarations, required: None
) -> None:
    note = declare()

    with pytest.raises(OutboxNoTransaction) as caught:
        note.enqueue(Ping("k"))
    with pytest.raises(OutboxNoTransaction):
        note.enqueue_many([Ping("k")])

    assert caught.value.code == "X_OUTBOX_NO_TX"
    assert "atomic" in caught.value.fix
    assert "outbox=False" in caught.value.fix
    assert not JobRow.objects.exists()
    assert not staged()


def test_where_a_transaction_is_required_one_will_do_and_so_will_the_bypass(
    declare: Declarations, required: None
) -> None:
    note = declare()
    with transaction.atomic():
        note.enqueue(Ping("a"))
    note.enqueue(Ping("b"), outbox=False)

    assert [row.idempotency_key for row in staged()] == ["a"]
    assert [job.idempotency_key for job in live(note.name)] == ["b"]


# The bypass


def test_the_bypass_survives_the_rollback_of_the_transaction_around_it(
    declare: Declarations,
) -> None:
    note = declare()

    with rolled_back():
        note.enqueue(Ping("undone"))
        bypassed = note.enqueue(Ping("kept"), outbox=False)
        seen = second_connection(lambda: [job.id for job in live(note.name)])
        assert seen.result(PATIENCE) == [bypassed.id]

    assert [job.id for job in live(note.name)] == [bypassed.id]
    assert not staged()


def test_the_bypass_leaves_the_callers_transaction_and_connection_as_they_were(
    declare: Declarations,
) -> None:
    note = declare()

    with transaction.atomic():
        ((before,),) = sql("SELECT pg_backend_pid()")
        note.enqueue_many([Ping("a"), Ping("b")], outbox=False)
        ((after,),) = sql("SELECT pg_backend_pid()")
        assert transaction.get_connection().in_atomic_block
        note.enqueue(Ping("c"))

    assert before == after
    assert [row.idempotency_key for row in staged()] == ["c"]


def test_the_bypass_closes_its_connection(declare: Declarations) -> None:
    note = declare()
    before = connected()

    with transaction.atomic():
        for number in range(10):
            note.enqueue(Ping(f"k-{number}"), outbox=False)

    wait_until(lambda: connected() <= before, what="its connections to leave")


def connected() -> int:
    ((count,),) = sql(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    return int(count)


def test_the_bypass_refuses_a_key_that_the_open_transaction_has_staged(
    declare: Declarations,
) -> None:
    """It would wait, on another connection, for the transaction that waits for it."""
    note = declare()

    with transaction.atomic():
        with transaction.atomic():
            kept = note.enqueue(Ping("k"))
        with pytest.raises(InvariantError) as caught:
            note.enqueue(Ping("k"), outbox=False)
        with pytest.raises(InvariantError):
            note.enqueue_many([Ping("a"), Ping("k")], outbox=False)
        other = note.enqueue(Ping("k"), outbox=False, tenant="another")

    assert "outbox=False" in caught.value.fix
    assert [row.id for row in staged()] == [kept.id]
    assert [job.id for job in live(note.name)] == [other.id]


def test_the_bypass_is_answered_with_a_key_that_another_transaction_staged_before(
    declare: Declarations,
) -> None:
    note = declare()
    with transaction.atomic():
        first = note.enqueue(Ping("k"))

    with transaction.atomic():
        answer = note.enqueue(Ping("k"), outbox=False)

    assert (answer.id, answer.deduped) == (first.id, True)


# Another database


def test_a_transaction_on_another_database_is_refused_clearly(
    declare: Declarations, other_alias: str
) -> None:
    note = declare()

    with transaction.atomic(using=other_alias):
        with pytest.raises(OutboxWrongDatabase) as caught:
            note.enqueue(Ping("k"))
        with pytest.raises(OutboxWrongDatabase):
            note.enqueue_many([Ping("k")])

    assert caught.value.code == "X_OUTBOX_WRONG_DATABASE"
    assert "'default'" in caught.value.cause
    assert not JobRow.objects.exists()
    assert not staged()


def test_a_transaction_on_another_database_may_be_bypassed(
    declare: Declarations, other_alias: str
) -> None:
    with rolled_back(using=other_alias):
        declare().enqueue(Ping("k"), outbox=False)

    assert JobRow.objects.count() == 1


def test_with_transactions_on_both_the_enqueue_rides_the_one_that_holds_the_outbox(
    declare: Declarations, other_alias: str
) -> None:
    note = declare()

    with transaction.atomic(), rolled_back(using=other_alias):
        kept = note.enqueue(Ping("k"))

    assert [row.id for row in staged()] == [kept.id]


def test_the_outbox_may_be_on_another_alias_than_the_default(
    declare: Declarations, other_alias: str, settings: Settings
) -> None:
    settings.ULTIMATE_JOBS = {"DATABASE": other_alias}
    note = declare()

    with transaction.atomic(), pytest.raises(OutboxWrongDatabase):
        note.enqueue(Ping("refused"))
    with transaction.atomic(using=other_alias):
        note.enqueue(Ping("staged"), using=other_alias)
        assert not staged()

    assert [row.idempotency_key for row in staged()] == ["staged"]
    assert relay_all() == 1


@pytest.mark.parametrize("inside", [False, True], ids=["direct", "in a transaction"])
def test_naming_another_alias_than_the_outboxs_is_refused(
    declare: Declarations, *, inside: bool
) -> None:
    note = declare()

    if inside:
        with transaction.atomic(), pytest.raises(OutboxWrongDatabase):
            note.enqueue(Ping("k"), using="other")
    else:
        with pytest.raises(OutboxWrongDatabase):
            note.enqueue(Ping("k"), using="other")
    assert not note.enqueue(Ping("k"), using="default").deduped


# No database


def test_a_database_that_cannot_be_reached_is_said_so(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = declare()
    monkeypatch.setitem(settings_of(), "HOST", "/nowhere")

    with pytest.raises(DriverUnavailable) as caught:
        second_connection(lambda: note.enqueue(Ping("k"))).result(PATIENCE)

    assert caught.value.code == "X_DRIVER_UNAVAILABLE"
    assert isinstance(caught.value.__cause__, Exception)


def test_a_connection_that_broke_is_said_so_once_and_replaced(declare: Declarations) -> None:
    note = declare()

    def caller() -> str:
        note.enqueue(Ping("a"))
        ((pid,),) = sql("SELECT pg_backend_pid()")
        second_connection(lambda: sql("SELECT pg_terminate_backend(%s, 5000)", [pid])).result(
            PATIENCE
        )
        with pytest.raises(DriverUnavailable):
            note.enqueue(Ping("b"))
        return "deduped" if note.enqueue(Ping("b")).deduped else "enqueued"

    assert second_connection(caller).result(PATIENCE) == "enqueued"
    assert [job.idempotency_key for job in live(note.name)] == ["a", "b"]


def test_a_transaction_whose_connection_broke_cannot_seem_to_have_enqueued(
    declare: Declarations,
) -> None:
    note = declare()

    def caller() -> None:
        with transaction.atomic():
            note.enqueue(Ping("a"))
            ((pid,),) = sql("SELECT pg_backend_pid()")
            second_connection(lambda: sql("SELECT pg_terminate_backend(%s, 5000)", [pid])).result(
                PATIENCE
            )
            note.enqueue(Ping("b"))

    with pytest.raises(OperationalError):
        second_connection(caller).result(PATIENCE)
    assert not staged()
