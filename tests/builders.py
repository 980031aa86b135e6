"""What tests are made of: throwaway jobs, rows in a wanted state, other connections, waiting.

    with declared(lambda run: run.input.key) as ping:
        ping.enqueue(Ping("a"))

    row = a_job(JobState.RUNNING, claimed_by="w-1", visible_for=timedelta(seconds=-1))
    held = claim(ping.name, room=2).jobs
    other = second_connection(lambda: ping.enqueue(Ping("a")))
    wait_until(lambda: blocked() == 1)
    assert other.result(5).deduped

Nothing here sleeps: ``wait_until`` looks again in small slices until a deadline.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self, TypeVar
from unittest.mock import patch

from django.db import connections, transaction  # noqa: TID251 - the one door to raw statements
from django.db.models.functions import Now

from ultimate_jobs import NO_TENANT, Job, Retry, Run, job
from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import (
    ClaimedJob,
    ClaimRequest,
    Claims,
    HeldClaim,
    Presence,
    Settlement,
    Settling,
    Tally,
)
from ultimate_jobs.core.states import LIVE, JobState
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.drivers.base import Driver, Part
from ultimate_jobs.drivers.handler import get_driver, set_driver
from ultimate_jobs.drivers.postgres.driver import PostgresDriver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.models import Job as JobRow, OutboxEntry, Worker
from ultimate_jobs.worker.deadlines import Deadlines
from ultimate_jobs.worker.held import Held, StepCeiling
from ultimate_jobs.worker.loop import Worker as WorkerProcess

T = TypeVar("T")

PING = "tests.ping"
WORKER = "tests-worker"
LEASE = timedelta(minutes=10)
PATIENCE = 60.0
"""Seconds a test waits for what must happen; only a failure takes that long."""

_numbers = itertools.count(1)


# Jobs


@dataclass(frozen=True, slots=True)
class Ping:
    """The input of throwaway jobs: a key, a tenant, and whatever else is to be stored."""

    key: str
    org: str = "acme"
    load: Any = None


Body = Callable[[Run[Ping]], object]


def quiet(run: Run[Ping]) -> None:
    """Do nothing."""


@contextmanager
def declared(body: Body = quiet, /, **options: Any) -> Iterator[Job[Ping, object]]:
    """Declare a job over ``Ping`` that is forgotten at the end of the block.

    Without options it has a name of its own, no tenant, the input's key, and three attempts.
    """
    named = _named(body)
    handle = job(
        **{
            "input": Ping,
            "tenant": NO_TENANT,
            "idempotency_key": lambda i: i.key,
            "retry": Retry(attempts=3, jitter=False),
            "name": f"tests.job_{next(_numbers)}",
            **options,
        }
    )(named)
    try:
        yield handle
    finally:
        registry.discard(handle)


class Declarations:
    """Throwaway jobs that live as long as this block: ``declare(body, queue="mail")``."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __call__(self, body: Body = quiet, /, **options: Any) -> Job[Ping, object]:
        return self._stack.enter_context(declared(body, **options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()


@contextmanager
def only_these(*handles: Job[Any, Any]) -> Iterator[None]:
    """Let the registry know no other job inside the block."""
    hidden = [other for other in registry if other not in handles]
    for other in hidden:
        registry.discard(other)
    try:
        yield
    finally:
        for other in hidden:
            registry.add(other)


def _named(body: Body) -> Body:
    if getattr(body, "__name__", "") != "<lambda>":
        return body

    def spelled_out(run: Run[Ping]) -> object:
        return body(run)

    return spelled_out


# Rows


def a_job(
    state: JobState = JobState.READY,
    *,
    name: str = PING,
    due_in: timedelta = timedelta(0),
    claimed_by: str = WORKER,
    visible_for: timedelta = LEASE,
    **columns: Any,
) -> JobRow:
    """Write a job in ``state`` and answer it as stored.

    ``due_in`` and ``visible_for`` count from the database's clock; negative ones lie in the past.
    A running row is in its first attempt, under its first claim. Any other column may be given.
    """
    running: dict[str, Any] = {}
    if state is JobState.RUNNING:
        running = {
            "attempt": 1,
            "claim": 1,
            "claimed_by": claimed_by,
            "visible_at": Now() + visible_for,
        }
    number = next(_numbers)
    row = JobRow.objects.create(
        **{
            "id": new_id(),
            "run_id": new_id(),
            "state": state,
            "name": name,
            "idempotency_key": f"key-{number}",
            "input": {"key": f"key-{number}"},
            "run_at": Now() + due_in,
            **running,
            **columns,
        }
    )
    row.refresh_from_db()
    return row


def a_staged_row(*, name: str = PING, **columns: Any) -> OutboxEntry:
    """Write a row of the outbox, and answer it as stored. Any column may be given."""
    number = next(_numbers)
    row = OutboxEntry.objects.create(
        **{
            "id": new_id(),
            "run_id": new_id(),
            "name": name,
            "idempotency_key": f"key-{number}",
            "input": {"key": f"key-{number}"},
            **columns,
        }
    )
    row.refresh_from_db()
    return row


def some_jobs(count: int, state: JobState = JobState.READY, **columns: Any) -> list[JobRow]:
    """Write several jobs; see ``a_job``."""
    return [a_job(state, **columns) for _ in range(count)]


def a_worker(name: str = WORKER, *, alive_for: timedelta = LEASE, **columns: Any) -> Worker:
    """Write the sign of life of a worker process; a negative span lies in the past."""
    return Worker.objects.create(id=name, expires_at=Now() + alive_for, **columns)


def reloaded(row: JobRow | ClaimedJob) -> JobRow:
    """Read a job as it is stored now."""
    return JobRow.objects.get(id=row.id)


def states() -> dict[str, int]:
    """Count the jobs by state."""
    found = JobRow.objects.order_by("state").values_list("state", flat=True)
    return {state: len(list(group)) for state, group in itertools.groupby(found)}


def live(name: str) -> list[JobRow]:
    """Read the live jobs of a name, in the order of their keys."""
    return list(JobRow.objects.filter(name=name, state__in=LIVE).order_by("idempotency_key"))


def staged(name: str | None = None) -> list[OutboxEntry]:
    """Read the rows that wait in the outbox, oldest first."""
    rows = OutboxEntry.objects.filter(published_at=None)
    return list(rows if name is None else rows.filter(name=name))


# Verbs, as a worker and a relay call them


def claim(
    *names: str,
    worker: str = WORKER,
    queues: Sequence[str] = ("default",),
    room: int = 10,
    share: int | None = None,
    lease: timedelta = LEASE,
    reap: bool = True,
    undead: Sequence[str] = (),
) -> Claims:
    """Claim as a worker that knows ``names`` (by default every name that has a row)."""
    known = names or tuple(JobRow.objects.order_by().values_list("name", flat=True).distinct())
    request = ClaimRequest(
        worker=worker,
        queues=queues,
        names=known,
        room=room,
        shares=[room if share is None else share for _ in queues],
        lease=lease,
        reap=reap,
        undead=undead,
    )
    return get_driver().queue.claim(request)


def an_ending(
    held: JobRow | ClaimedJob,
    state: JobState = JobState.DONE,
    *,
    claim: int | None = None,
    seconds: float = 0.0,
    progress: str | None = None,
    **settlement: Any,
) -> Settling:
    """Build an ending for a claimed row; ``claim`` names another claim than its own."""
    tallies = {
        JobState.DONE: Tally(done=1),
        JobState.DEAD: Tally(dead=1),
        JobState.FAILED: Tally(failed=1),
    }
    words = {"tally": tallies.get(state, Tally()), **settlement}
    return Settling(
        id=held.id,
        claim=held.claim if claim is None else claim,
        settlement=Settlement(state=state, **words),
        seconds=seconds,
        progress=progress,
    )


def settle(*endings: Settling, worker: str = WORKER) -> set[Any]:
    """Write endings as ``worker``; answer the claims that stood."""
    return get_driver().queue.settle(worker, endings)


def held(row: JobRow | ClaimedJob, *, claim: int | None = None) -> HeldClaim:
    """Build what a worker believes it holds."""
    return HeldClaim(row.id, row.claim if claim is None else claim)


def presence(worker: str = WORKER) -> Presence:
    """Build what a worker says about itself."""
    return Presence(
        worker=worker,
        host="tests",
        pid=1,
        queues=["default"],
        jobs=[PING],
        concurrency=8,
        state="running",
    )


@contextmanager
def without_slots() -> Iterator[Driver]:
    """Install a driver that cannot hold caps, for the block."""
    driver = _WithoutSlots(get_settings().database)
    set_driver(driver)
    try:
        yield driver
    finally:
        set_driver(None)


class _WithoutSlots(PostgresDriver):
    absent = frozenset({Part.SLOTS})

    @property
    def slots(self) -> None:  # type: ignore[override]
        return None


def relay_all(batch: int = 500) -> int:
    """Publish everything that is staged; answer how many rows became jobs."""
    published = 0
    while (done := get_driver().outbox.relay(batch)).seen:
        published += done.published
    return published


def work_off(concurrency: int = 2) -> None:
    """Relay and run everything that is due, as one worker process on connections of its own."""

    def until_idle() -> None:
        relay = Relay(get_driver(), get_settings())
        worker = WorkerProcess(get_driver(), registry, get_settings(), concurrency=concurrency)
        worker.run(until_idle=True, feed=relay.drain)

    second_connection(until_idle).result(3 * PATIENCE)


# Time


@contextmanager
def out_of_time(when: Callable[[], object] = lambda: True) -> Iterator[None]:
    """Let timeouts of bodies and steps pass only once ``when`` holds, however slow the machine is.

    Whoever is told then is waited for as long as a test is patient, before it is given up.
    """
    plain = Deadlines.set
    told: list[object] = []

    def patiently(self: Deadlines, thing: Any, seconds: float, act: Callable[[], None]) -> None:
        def once_it_holds() -> None:
            if when():
                told.append(thing)
                act()
            else:
                plain(self, thing, 0.01, once_it_holds)

        if not isinstance(thing, Held | StepCeiling):
            plain(self, thing, seconds, act)
        elif thing in told:
            plain(self, thing, PATIENCE, act)
        else:
            plain(self, thing, seconds, once_it_holds)

    with patch.object(Deadlines, "set", patiently):
        yield


# Other connections


def second_connection(work: Callable[[], T]) -> Future[T]:
    """Run ``work`` on a thread with connections of its own, which are closed afterwards."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            found = work()
        except BaseException as error:  # noqa: BLE001 - the test meets it at result()
            connections.close_all()
            answer.set_exception(error)
        else:
            connections.close_all()
            answer.set_result(found)

    threading.Thread(target=run, name="second-connection", daemon=True).start()
    return answer


def at_once(*works: Callable[[], T]) -> list[T]:
    """Run every work on a connection of its own, all released at one moment; answer in order."""
    gate = threading.Barrier(len(works))

    def released(work: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            gate.wait(PATIENCE)
            return work()

        return run

    running = [second_connection(released(work)) for work in works]
    return [one.result(6 * PATIENCE) for one in running]


def sql(statement: str, params: Sequence[Any] = (), *, using: str = "default") -> list[Any]:
    """Run a raw statement on the test's connection; answer its rows, if it has any."""
    with connections[using].cursor() as cursor:
        cursor.execute(statement, params or None)
        return [] if cursor.description is None else cursor.fetchall()


def settings_of(alias: str = "default") -> dict[str, Any]:
    """Answer the settings in force of a connection, test database included."""
    return connections[alias].settings_dict


class UndoError(Exception):
    """Undoes the transaction around it."""


@contextmanager
def rolled_back(using: str = "default") -> Iterator[None]:
    """Open a transaction, or a savepoint of the open one, that an exception undoes at the end."""
    with suppress(UndoError), transaction.atomic(using=using):
        yield
        raise UndoError


# Waiting


def wait_until(
    predicate: Callable[[], object], seconds: float = PATIENCE, *, what: str = "that"
) -> None:
    """Look again, in small slices, until ``predicate`` holds; fail at the deadline."""
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() > deadline:
            break
        pause.wait(0.01)
    else:
        return
    raise AssertionError(f"waited {seconds:g} s in vain for {what}")


def blocked() -> int:
    """Count the connections to this database that wait for a lock."""
    sql("SELECT pg_stat_clear_snapshot()")  # a transaction would see its first answer again
    ((count,),) = sql(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return int(count)


def wait_for_blocked(count: int = 1, seconds: float = PATIENCE) -> None:
    """Wait until ``count`` connections wait for a lock."""
    wait_until(lambda: blocked() >= count, seconds, what=f"{count} connections to wait for a lock")
