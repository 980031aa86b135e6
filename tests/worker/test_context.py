"""Nothing that a body leaves on its thread reaches the next one."""

from __future__ import annotations

import decimal
import threading
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

import pytest
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
from tests.worker.running import Events, Gate, body_threads, on_duty, work
from ultimate_jobs import Job, Retry, Run, current_actor
from ultimate_jobs.models import Job as JobRow

pytestmark = pytest.mark.django_db(transaction=True)

OPEN_FILES = Path("/proc/self/fd")
request_id: ContextVar[str] = ContextVar("request_id", default="none")


def leave_traces() -> None:
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    request_id.set("of an earlier job")
    decimal.getcontext().prec = 3


def traces(run: Run[Ping]) -> object:
    return [
        translation.get_language(),
        timezone.get_current_timezone_name(),
        request_id.get(),
        str(decimal.Decimal(1) / 3),
        threading.get_ident(),
    ]


def _return(run: Run[Ping]) -> None:
    leave_traces()


def _raise(run: Run[Ping]) -> None:
    leave_traces()
    raise LookupError


def _exit(run: Run[Ping]) -> None:
    leave_traces()
    raise SystemExit


def _run_out_of_time(run: Run[Ping]) -> None:
    leave_traces()
    run.signal.wait(PATIENCE)
    run.signal.raise_if_aborted()


def result_of(handle: Job[Ping, object]) -> list[object]:
    result = JobRow.objects.get(name=handle.name).result
    assert isinstance(result, list)
    return result


NO_TRACES = ["en-us", "UTC", "none", "0.3333333333333333333333333333"]


@pytest.mark.parametrize("end", [_return, _raise, _exit, _run_out_of_time])
def test_the_next_body_on_a_thread_finds_the_defaults_however_the_last_one_ended(
    declare: Declarations, end: Callable[[Run[Ping]], None]
) -> None:
    threads: list[int] = []

    def first(run: Run[Ping]) -> None:
        threads.append(threading.get_ident())
        end(run)

    untidy = declare(first, timeout="100ms", retry=Retry(attempts=1))
    after = declare(traces)
    untidy.enqueue(Ping("a"), priority=1)
    after.enqueue(Ping("b"))

    with out_of_time():
        work(untidy, after, concurrency=1)

    *found, thread = result_of(after)
    assert found == NO_TRACES
    assert thread == threads[0], "the two did not meet on one thread"


def test_what_the_enqueuer_had_set_is_not_applied(declare: Declarations) -> None:
    after = declare(traces)
    with translation.override("de"), timezone.override("Asia/Tokyo"):
        after.enqueue(Ping("a"))

    work(after)

    assert result_of(after)[:4] == NO_TRACES


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
