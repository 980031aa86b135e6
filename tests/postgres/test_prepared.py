"""Statements that the server keeps: on a worker's own connections, and nowhere else."""

from __future__ import annotations

import time
from typing import Any

import psycopg
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


def read_from_end_to_end(table: str) -> int:
    """Count the rows that this transaction has read without an index."""
    ((count,),) = sql(
        "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = %s", [table]
    )
    return int(count)


def test_a_plan_that_was_made_for_an_empty_table_is_not_used_for_a_full_one(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes statistics in between; the plan is only too old."""
    ping = declare()
    moment = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    sql("VACUUM x_outbox")

    def rows_read(key: str) -> int:
        with transaction.atomic():
            before = read_from_end_to_end("x_outbox")
            ping.enqueue(Ping(key))
            return read_from_end_to_end("x_outbox") - before

    def enqueue() -> int:
        for number in range(8):
            rows_read(f"k-{number}")
        with transaction.atomic():
            ping.enqueue_many([Ping(f"many-{number}") for number in range(1_000)])
        moment[0] = 1.0
        rows_read("planned, as it comes late")
        return rows_read("kept, and planned anew")

    assert second_connection(enqueue).result(PATIENCE) == 0


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize(("rows", "seconds"), [(1, 10.0), (500, 1.0)])
def test_a_thread_that_keeps_statements_does_not_use_plans_of_a_smaller_table_for_long(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch, rows: int, seconds: float, *, once: bool
) -> None:
    ping = declare()
    first = ping.enqueue(Ping("first"))
    sql("VACUUM ANALYZE x_jobs")
    moment = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    database = Database()

    def rows_read() -> int:
        with transaction.atomic():
            before = read_from_end_to_end("x_jobs")
            database.rows("SELECT j.name FROM x_jobs AS j WHERE j.id = %(id)s", {"id": first.id})
            return read_from_end_to_end("x_jobs") - before

    def look() -> list[int]:
        database.repeat_statements(plan_once=once)
        small = [rows_read() for _ in range(8)][-1]
        ping.enqueue_many([Ping(f"many-{number}") for number in range(1_000)])
        database.rows("SELECT generate_series(1, %(rows)s::int)", {"rows": rows})
        moment[0] = seconds - 0.5
        early = rows_read()
        moment[0] = seconds - 0.25
        still_early = rows_read()
        moment[0] = seconds
        return [small, early, still_early, rows_read()]

    assert second_connection(look).result(PATIENCE) == [1, 1_001, 1_001, 0]


@pytest.mark.parametrize(("seconds", "times"), [(5.0, 0), (0.75, 1)])
def test_only_a_thread_that_comes_often_pays_for_new_plans(
    monkeypatch: pytest.MonkeyPatch, seconds: float, times: int
) -> None:
    moment = [0.0]
    said: list[object] = []
    execute = psycopg.Cursor.execute

    def heard(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        said.append(query)
        return execute(self, query, *args, **kwargs)

    def look() -> None:
        monkeypatch.setattr(time, "monotonic", lambda: moment[0])
        monkeypatch.setattr(psycopg.Cursor, "execute", heard)
        database = Database()
        database.repeat_statements(plan_once=True)
        for number in range(16):
            moment[0] = seconds * number
            database.rows("SELECT %(n)s::int", {"n": 7})
        monkeypatch.undo()

    second_connection(look).result(PATIENCE)

    assert said.count("DISCARD PLANS") == times
