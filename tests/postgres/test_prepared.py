"""Statements that the server keeps: on a worker's own connections, and nowhere else."""

from __future__ import annotations

import time

import pytest
from django.db import connections, transaction  # noqa: TID251 - to look at the connection itself
from django.test import override_settings

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    rolled_back,
    second_connection,
    settings_of,
    sql,
    states,
)
from tests.wake.lines import alias
from tests.worker.running import work
from ultimate_jobs import Run
from ultimate_jobs.drivers.postgres import sql as sql_texts
from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.models import OutboxEntry

pytestmark = pytest.mark.django_db(transaction=True)


def kept() -> list[str]:
    """Name the statements that this thread's session keeps."""
    return [row[0] for row in sql("SELECT statement FROM pg_prepared_statements")]


def plan_mode() -> str:
    ((mode,),) = sql("SHOW plan_cache_mode")
    return str(mode)


def test_nothing_is_kept_unless_a_thread_asks_for_it() -> None:
    def look() -> list[str]:
        for _ in range(10):
            Database().rows("SELECT 1", {})
        return kept()

    assert second_connection(look).result(10) == []


@pytest.mark.parametrize("once", [True, False])
def test_a_thread_that_asks_has_its_statements_kept_until_it_closes(*, once: bool) -> None:
    def look() -> tuple[list[str], str, list[str], str]:
        database = Database()
        database.repeat_statements(plan_once=once)
        assert database.rows("SELECT %(n)s::int", {"n": 7}) == [(7,)]
        during, mode = kept(), plan_mode()
        database.close()
        database.rows("SELECT %(n)s::int", {"n": 7})
        return during, mode, kept(), plan_mode()

    during, mode, after, later_mode = second_connection(look).result(10)

    assert during == ["SELECT $1::int"]
    assert mode == ("force_generic_plan" if once else "auto")
    assert (after, later_mode) == ([], "auto")


def test_a_connection_that_names_another_server_process_is_a_poolers_and_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look() -> tuple[list[str], str]:
        connection = connections["default"]
        connection.ensure_connection()
        info = type(connection.connection.info)
        monkeypatch.setattr(info, "backend_pid", property(lambda self: 1))
        database = Database()
        database.repeat_statements(plan_once=True)
        database.rows("SELECT %(n)s::int", {"n": 7})
        return kept(), plan_mode()

    assert second_connection(look).result(10) == ([], "auto")


def test_a_body_thread_keeps_the_statements_of_steps_and_not_those_of_the_application(
    declare: Declarations,
) -> None:
    seen: list[tuple[list[str], str]] = []

    def body(run: Run[Ping]) -> None:
        run.step("first", states)
        seen.append((kept(), plan_mode()))

    ping = declare(body)
    ping.enqueue(Ping("a"))
    work(ping)

    ((statements, mode),) = seen
    assert len(statements) == 1
    assert "x_job_steps" in statements[0]
    assert mode == "auto"


def test_it_can_be_turned_off(declare: Declarations) -> None:
    seen: list[list[str]] = []

    def body(run: Run[Ping]) -> None:
        run.step("first", lambda: None)
        seen.append(kept())

    ping = declare(body)
    ping.enqueue(Ping("a"))
    work(ping, prepared_statements=False)

    assert seen == [[]]


def test_a_session_goes_back_to_a_pool_as_it_was() -> None:
    options = {**settings_of().get("OPTIONS", {}), "pool": {"min_size": 1, "max_size": 1}}
    with alias("pooled", OPTIONS=options, CONN_MAX_AGE=0):

        def plan_once() -> str:
            database = Database("pooled")
            database.repeat_statements(plan_once=True)
            ((mode,),) = database.rows("SHOW plan_cache_mode", {})
            database.close()
            return str(mode)

        def plan_as_usual() -> str:
            database = Database("pooled")
            ((mode,),) = database.rows("SHOW plan_cache_mode", {})
            database.close()
            return str(mode)

        modes = [second_connection(work).result(10) for work in (plan_once, plan_as_usual)]
        connections["pooled"].close_pool()  # type: ignore[attr-defined]

    assert modes == ["force_generic_plan", "auto"]


def enqueued_by_an_application(declare: Declarations, times: int) -> tuple[list[str], object]:
    """Enqueue on a connection of its own; answer what that keeps, and its threshold."""
    ping = declare()

    def enqueue() -> tuple[list[str], object]:
        for number in range(times):
            ping.enqueue(Ping(f"k-{number}"))
        return kept(), connections["default"].connection.prepare_threshold

    return second_connection(enqueue).result(PATIENCE)


@pytest.mark.parametrize(("times", "count"), [(2, 0), (3, 1), (9, 1)])
def test_an_application_that_goes_on_enqueueing_has_that_statement_kept_and_no_other(
    declare: Declarations, times: int, count: int
) -> None:
    statements, threshold = enqueued_by_an_application(declare, times)

    assert [text.partition("\n")[0] for text in statements] == [
        sql_texts.ENQUEUE_ONE.partition("\n")[0]
    ] * count
    assert threshold is None


def test_an_application_behind_a_pooler_has_nothing_kept(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections["default"].ensure_connection()
    info = type(connections["default"].connection.info)
    monkeypatch.setattr(info, "backend_pid", property(lambda self: 1))

    assert enqueued_by_an_application(declare, 9)[0] == []


def test_an_application_that_turned_it_off_has_nothing_kept(declare: Declarations) -> None:
    with override_settings(ULTIMATE_JOBS={"PREPARED_STATEMENTS": False}):
        assert enqueued_by_an_application(declare, 9)[0] == []


def test_an_enqueue_after_a_rollback_is_prepared_anew(declare: Declarations) -> None:
    """psycopg lets go of everything that was prepared when a transaction is rolled back."""
    ping = declare()

    def enqueue() -> list[bool]:
        for number in range(8):
            with transaction.atomic():
                ping.enqueue(Ping(f"k-{number}"))
        with rolled_back():
            ping.enqueue(Ping("undone"))
        with transaction.atomic():
            return [ping.enqueue(Ping(key)).deduped for key in ("k-1", "undone")]

    assert second_connection(enqueue).result(PATIENCE) == [True, False]
    assert OutboxEntry.objects.count() == 9


def test_a_plan_that_was_made_for_an_empty_table_is_not_used_for_a_full_one(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes statistics in between; the plan is only too old."""
    ping = declare()
    moment = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    sql("VACUUM x_outbox")

    def so_far() -> int:
        ((count,),) = sql(
            "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'x_outbox'"
        )
        return int(count)

    def rows_read(key: str) -> int:
        with transaction.atomic():
            before = so_far()
            ping.enqueue(Ping(key))
            return so_far() - before

    def enqueue() -> int:
        for number in range(8):
            rows_read(f"k-{number}")
        with transaction.atomic():
            ping.enqueue_many([Ping(f"many-{number}") for number in range(1_000)])
        moment[0] = 1.0
        rows_read("planned, as it comes late")
        return rows_read("kept, and planned anew")

    assert second_connection(enqueue).result(PATIENCE) == 0
