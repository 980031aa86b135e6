"""Nothing that a body leaves on its thread reaches the next one."""

from __future__ import annotations

import asyncio
import decimal
import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from asgiref.local import Local
from asgiref.sync import sync_to_async
from django import forms
from django.db import transaction
from django.utils import timezone, translation

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    out_of_time,
    sql,
    states,
    wait_until,
)
from tests.worker.running import Events, Gate, body_threads, milliseconds, on_duty, work
from ultimate_jobs import AsyncRun, Job, Retry, Run, current_actor
from ultimate_jobs.models import Job as JobRow
from ultimate_jobs.operate.verbs import cancel_job

pytestmark = pytest.mark.django_db(transaction=True)

OPEN_FILES = Path("/proc/self/fd")
request_id: ContextVar[str] = ContextVar("request_id", default="none")
by_asgiref = Local()
"""A local of an application, as Django and its friends keep theirs."""


class Whole(forms.Form):
    """A form whose failure is told in the language that is active."""

    number = forms.IntegerField()


def leave_traces() -> None:
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    request_id.set("of an earlier job")
    decimal.getcontext().prec = 3
    by_asgiref.value = "of an earlier job"


def traces(run: object) -> list[object]:
    return [
        translation.get_language(),
        timezone.get_current_timezone_name(),
        request_id.get(),
        getattr(by_asgiref, "value", "none"),
        str(decimal.Decimal(1) / 3),
        Whole({"number": "x"}).errors["number"][0],
        threading.get_ident(),
    ]


async def async_traces(run: object) -> list[object]:
    return traces(run)


NO_TRACES = [
    "en-us",
    "UTC",
    "none",
    "none",
    "0.3333333333333333333333333333",
    "Enter a whole number.",
]


def _return(run: Run[Ping]) -> None:
    """Return."""


def _raise(run: Run[Ping]) -> None:
    raise LookupError


def _exit(run: Run[Ping]) -> None:
    raise SystemExit


def _until_told(run: Run[Ping]) -> None:
    run.signal.wait(PATIENCE)
    run.signal.raise_if_aborted()


def _run_out_of_time(run: Run[Ping]) -> None:
    _until_told(run)


def _be_cancelled(run: Run[Ping]) -> None:
    cancel_job(str(run.job_id))
    _until_told(run)


def _suspend(run: Run[Ping]) -> None:
    run.sleep("1h")


async def _return_async(run: AsyncRun[Ping]) -> None:
    """Return."""


async def _raise_async(run: AsyncRun[Ping]) -> None:
    raise LookupError


async def _exit_async(run: AsyncRun[Ping]) -> None:
    raise SystemExit


async def _exit_in_a_task_async(run: AsyncRun[Ping]) -> None:
    await asyncio.gather(_exit_async(run))


async def _run_out_of_time_async(run: AsyncRun[Ping]) -> None:
    await asyncio.sleep(PATIENCE)


async def _be_cancelled_async(run: AsyncRun[Ping]) -> None:
    await sync_to_async(cancel_job)(str(run.job_id))
    await asyncio.sleep(PATIENCE)


async def _suspend_async(run: AsyncRun[Ping]) -> None:
    await run.sleep("1h")


ENDS: dict[Callable[[Any], Any], str] = {
    _return: "done",
    _raise: "dead",
    _exit: "dead",
    _run_out_of_time: "dead",
    _be_cancelled: "cancelled",
    _suspend: "suspended",
    _return_async: "done",
    _raise_async: "dead",
    _exit_async: "dead",
    _exit_in_a_task_async: "dead",
    _run_out_of_time_async: "dead",
    _be_cancelled_async: "cancelled",
    _suspend_async: "suspended",
}
"""Every way in which a body ends, and what becomes of its job."""


def untidily(end: Callable[[Any], Any], threads: list[int]) -> Callable[[Any], Any]:
    """Answer a body that leaves traces and then ends so."""

    def body(run: Any) -> Any:
        threads.append(threading.get_ident())
        leave_traces()
        return end(run)

    async def async_body(run: Any) -> Any:
        threads.append(threading.get_ident())
        leave_traces()
        return await end(run)

    return async_body if inspect.iscoroutinefunction(end) else body


def result_of(handle: Job[Ping, object]) -> list[object]:
    result = JobRow.objects.get(name=handle.name).result
    assert isinstance(result, list)
    return result


@pytest.mark.parametrize("end", ENDS)
def test_the_next_body_on_a_thread_finds_the_defaults_however_the_last_one_ended(
    declare: Declarations, end: Callable[[Any], Any]
) -> None:
    threads: list[int] = []
    is_async = inspect.iscoroutinefunction(end)
    untidy = declare(untidily(end, threads), timeout="100ms", retry=Retry(attempts=1))
    after = declare(async_traces if is_async else traces)
    untidy.enqueue(Ping("a"), priority=1)
    after.enqueue(Ping("b"))

    with out_of_time(lambda: end in {_run_out_of_time, _run_out_of_time_async}):
        work(untidy, after, concurrency=1, heartbeat_interval=milliseconds(50))

    assert JobRow.objects.get(name=untidy.name).state == ENDS[end]
    *found, thread = result_of(after)
    assert found == NO_TRACES
    assert thread == threads[0], "the two did not meet on one thread"


@pytest.mark.parametrize("first", [_return, _return_async])
def test_bodies_of_one_kind_leave_nothing_to_those_of_the_other(
    declare: Declarations, first: Callable[[Any], Any]
) -> None:
    untidy = declare(untidily(first, []))
    after = declare(traces if inspect.iscoroutinefunction(first) else async_traces)
    untidy.enqueue(Ping("a"), priority=1)
    after.enqueue(Ping("b"))

    work(untidy, after, concurrency=1)

    assert result_of(after)[:-1] == NO_TRACES


def test_what_the_enqueuer_had_set_is_not_applied(declare: Declarations) -> None:
    after = declare(traces)
    with translation.override("de"), timezone.override("Asia/Tokyo"):
        after.enqueue(Ping("a"))

    work(after)

    assert result_of(after)[:-1] == NO_TRACES


def test_a_hook_finds_the_defaults_too(declare: Declarations) -> None:
    seen: list[object] = []

    def body(run: Run[Ping]) -> None:
        leave_traces()

    ping = declare(
        body,
        on_settled=lambda settled: seen.append(
            [translation.get_language(), request_id.get(), getattr(current_actor(), "org", "")]
        ),
    )
    ping.enqueue(Ping("a"))

    work(ping, concurrency=1)

    assert seen == [["en-us", "none", None]]


# Transactions


def left_open(run: Run[Ping]) -> None:
    transaction.set_autocommit(False)
    JobRow.objects.filter(id=run.job_id).update(enqueued_by="never committed")


def entered(run: Run[Ping]) -> None:
    transaction.atomic().__enter__()
    JobRow.objects.filter(id=run.job_id).update(enqueued_by="never committed")


def broken_inside(run: Run[Ping]) -> None:
    transaction.set_autocommit(False)
    sql("SELECT 1 / 0")


@pytest.mark.parametrize("leave", [left_open, entered, broken_inside])
def test_a_transaction_left_open_is_rolled_back_and_reported(
    declare: Declarations, events: Events, leave: Callable[[Run[Ping]], None]
) -> None:
    untidy = declare(leave, retry=Retry(attempts=1))
    after = declare(lambda run: [transaction.get_autocommit(), len(sql("SELECT 1"))])
    untidy.enqueue(Ping("a"), priority=1)
    after.enqueue(Ping("b"))

    work(untidy, after, concurrency=1)

    first = JobRow.objects.get(name=untidy.name)
    assert first.state in {"done", "dead"}
    assert first.enqueued_by is None
    (said,) = events.named("jobs.body.transaction-left-open")
    assert (said["id"], said["alias"]) == (first.id, "default")
    assert JobRow.objects.get(name=after.name).result == [True, 1]


def test_a_body_runs_outside_any_transaction(declare: Declarations) -> None:
    ping = declare(lambda run: [transaction.get_autocommit(), _in_block()])
    ping.enqueue(Ping("a"))

    work(ping)

    assert JobRow.objects.get().result == [True, False]


def _in_block() -> bool:
    return bool(transaction.get_connection().in_atomic_block)


def test_no_connection_idles_in_a_transaction_while_bodies_run(
    declare: Declarations, gate: Gate
) -> None:
    def body(run: Run[Ping]) -> None:
        JobRow.objects.count()
        gate.hold()

    ping = declare(body)
    ping.enqueue_many([Ping("a"), Ping("b")])
    with on_duty(ping):
        gate.arrived(2)
        wait_until(lambda: _in_a_transaction() == 0)
        gate.open()


def _in_a_transaction() -> int:
    ((count,),) = sql(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        " AND (state LIKE 'idle in transaction%' OR backend_xmin IS NOT NULL)"
    )
    return int(count)


def test_a_body_that_uses_no_database_holds_no_connection(
    declare: Declarations, gate: Gate
) -> None:
    ping: Job[Ping, object] = declare(lambda run: gate.hold())
    ping.enqueue_many([Ping(f"k-{n}") for n in range(4)])
    before = _connections()
    with on_duty(ping, concurrency=4):
        gate.arrived(4)
        assert _connections() - before <= 2, "the dispatcher's and the heartbeat's"
        gate.open()

    assert states() == {"done": 4}


def _connections() -> int:
    ((count,),) = sql(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    return int(count)


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="counts open files by /proc")
def test_threads_and_open_files_are_as_before_once_a_worker_has_ended(
    declare: Declarations,
) -> None:
    ping = declare(lambda run: JobRow.objects.count())
    work(ping)
    wait_until(lambda: not body_threads())
    files = len(list(OPEN_FILES.iterdir()))
    ping.enqueue_many([Ping(f"k-{n}") for n in range(8)])

    work(ping, concurrency=4)

    wait_until(lambda: not body_threads(), what="the body threads to end")
    wait_until(lambda: len(list(OPEN_FILES.iterdir())) <= files, what="files to be closed")
