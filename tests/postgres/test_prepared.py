"""Statements that the server keeps: on a worker's own connections, and nowhere else."""

from __future__ import annotations

import pytest
from django.db import connections  # noqa: TID251 - to look at the connection itself

from tests.builders import Declarations, Ping, second_connection, settings_of, sql, states
from tests.wake.lines import alias
from tests.worker.running import work
from ultimate_jobs import Run
from ultimate_jobs.drivers.postgres.connection import Database

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
