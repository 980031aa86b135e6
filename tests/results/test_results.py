"""What a handle answers, without having to wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    a_job,
    relay_all,
    rolled_back,
    second_connection,
    sql,
)
from tests.worker.running import work
from ultimate_jobs import Enqueued, Retry
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.states import LIVE, JobState
from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.drivers.handler import get_driver, set_driver
from ultimate_jobs.drivers.postgres.driver import PostgresDriver
from ultimate_jobs.drivers.postgres.queue import PostgresQueue
from ultimate_jobs.errors import (
    DriverUnavailable,
    InvariantError,
    JobCancelled,
    JobFailed,
    ResultGone,
    ResultNotCommitted,
    ResultTimeout,
)
from ultimate_jobs.models import Job as JobRow, OutboxEntry
from ultimate_jobs.operate.verbs import cancel_job, retry_job
from ultimate_jobs.testing import jobs_kit

pytestmark = pytest.mark.django_db(transaction=True)

Ask = Callable[[Enqueued], Any]


def at_once(queued: Enqueued) -> Any:
    """Ask for a result that must be there."""
    return queued.result(timeout=0)


def at_once_async(queued: Enqueued) -> Any:
    return async_to_sync(queued.aresult)(timeout=0)


both = pytest.mark.parametrize("ask", [at_once, at_once_async], ids=["result", "aresult"])


def handle_on(job: UUID) -> Enqueued:
    return Enqueued(job, job, deduped=False)


@both
def test_the_result_is_what_the_body_returned(declare: Declarations, ask: Ask) -> None:
    values = [None, 0, "text", [1, 2.5], {"key": {"deep": None}}]
    answering = declare(lambda run: run.input.load)
    queued = answering.enqueue_many([Ping(str(n), load=value) for n, value in enumerate(values)])

    work(answering)

    assert [ask(one) for one in queued] == values
    assert {one.status() for one in queued} == {"done"}


@both
@pytest.mark.parametrize("dead_letter", [True, False], ids=["dead", "failed"])
def test_a_job_that_failed_for_good_is_a_named_error(
    declare: Declarations, ask: Ask, *, dead_letter: bool
) -> None:
    def fails(run: object) -> None:
        raise LookupError("nobody may see this word: secret")

    failing = declare(fails, retry=Retry(attempts=1, dead_letter=dead_letter))
    queued = failing.enqueue(Ping("a"))
    work(failing)

    with pytest.raises(
        JobFailed, match=f"'{failing.name}' has failed for good: LookupError"
    ) as met:
        ask(queued)

    assert "secret" not in str(met.value)
    assert met.value.meta["state"] == queued.status() == ("dead" if dead_letter else "failed")
    assert "secret" in str(met.value.meta["error"])
    assert met.value.meta["id"] == str(queued.id)


@pytest.mark.django_db
def test_an_error_that_was_not_kept_is_unknown() -> None:
    job = a_job(JobState.DEAD, last_error=None)

    with pytest.raises(JobFailed, match="unknown"):
        at_once(handle_on(job.id))


@both
def test_a_cancelled_job_is_a_named_error(declare: Declarations, ask: Ask) -> None:
    queued = declare().enqueue(Ping("a"))
    cancel_job(str(queued.id), reason="no longer wanted")

    with pytest.raises(JobCancelled, match="was cancelled"):
        ask(queued)

    assert queued.status() == "cancelled"


@both
def test_a_job_that_goes_on_is_a_timeout(ask: Ask) -> None:
    for state in sorted(LIVE):
        handle = handle_on(a_job(state).id)

        with pytest.raises(ResultTimeout, match="X_RESULT_TIMEOUT"):
            ask(handle)

        assert handle.status() == state


@pytest.mark.django_db
@both
def test_a_job_that_is_gone_is_a_named_error(ask: Ask) -> None:
    handle = handle_on(new_id())

    with pytest.raises(ResultGone):
        ask(handle)
    with pytest.raises(ResultGone):
        handle.status()


def test_a_job_that_is_retried_is_waited_for_again(declare: Declarations) -> None:
    answers = iter([LookupError("first"), "second"])

    def answer(run: object) -> object:
        given = next(answers)
        if isinstance(given, Exception):
            raise given
        return given

    answering = declare(answer, retry=Retry(attempts=1))
    queued = answering.enqueue(Ping("a"))
    work(answering)
    with pytest.raises(JobFailed):
        at_once(queued)

    retry_job(str(queued.id))
    with pytest.raises(ResultTimeout):
        at_once(queued)
    work(answering)

    assert at_once(queued) == "second"


@pytest.mark.django_db
@pytest.mark.parametrize("timeout", [-1, "soon", True, float("nan")], ids=repr)
def test_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(InvariantError, match="timeout"):
        handle_on(new_id()).result(timeout=timeout)


# Transactions


def test_a_staged_job_waits_for_the_relay(declare: Declarations) -> None:
    answering = declare(lambda run: run.input.key)
    with transaction.atomic():
        queued = answering.enqueue(Ping("a"))
        assert queued.status() == "staged"

    assert queued.status() == "staged"
    with pytest.raises(ResultTimeout):
        at_once(queued)
    relay_all()
    work(answering)
    assert at_once(queued) == "a"


@both
def test_a_job_of_the_open_transaction_is_not_waited_for(declare: Declarations, ask: Ask) -> None:
    ping = declare()

    with transaction.atomic(), transaction.atomic():
        queued = ping.enqueue(Ping("a"))
        with pytest.raises(ResultNotCommitted, match="enqueued in a transaction that is open"):
            queued.result()

    with pytest.raises(ResultTimeout):
        ask(queued)


def test_a_job_whose_enqueue_was_undone_is_gone(declare: Declarations) -> None:
    ping = declare()
    with rolled_back():
        queued = ping.enqueue(Ping("a"))

    with pytest.raises(ResultGone):
        queued.result()


@pytest.mark.django_db
def test_a_job_of_a_test_case_is_not_waited_for(declare: Declarations) -> None:
    queued = declare().enqueue(Ping("a"))
    relay_all()

    with pytest.raises(ResultNotCommitted):
        queued.result()


@pytest.mark.django_db
def test_a_job_that_ran_inside_a_test_answers(declare: Declarations) -> None:
    with jobs_kit() as jobs:
        queued = declare(lambda run: run.input.key).enqueue(Ping("a"))
        with pytest.raises(ResultNotCommitted):
            queued.result()

        jobs.run_jobs()

        assert queued.result() == "a"


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_job_from_outside_the_transaction_is_waited_for(
    declare: Declarations, level: str
) -> None:
    answering = declare(lambda run: run.input.key)

    def work_elsewhere() -> None:
        second_connection(lambda: work(answering)).result(PATIENCE)

    with transaction.atomic():
        sql(f"SET TRANSACTION ISOLATION LEVEL {level}")
        assert JobRow.objects.count() == 0  # the snapshot of the transaction begins here
        queued = answering.enqueue(Ping("a"), outbox=False)
        with pytest.raises(ResultTimeout):
            at_once(queued)
        work_elsewhere()

        assert at_once(queued) == "a"


def test_a_handle_that_the_relay_deduplicated_follows_the_live_job(declare: Declarations) -> None:
    answering = declare(lambda run: run.input.key)
    live = a_job(name=answering.name, idempotency_key="a", input={"key": "a", "org": "", "load": 1})
    receipt = OutboxEntry.objects.create(
        id=new_id(), run_id=new_id(), name=answering.name, idempotency_key="a", input={}
    )
    relay_all()
    receipt.refresh_from_db()
    assert receipt.job_id == live.id

    handle = handle_on(receipt.id)
    assert handle.status() == "ready"
    work(answering)

    assert (handle.status(), at_once(handle)) == ("done", "a")


# The database


class Silent(PostgresDriver):
    """A driver whose database does not answer."""

    @property
    def queue(self) -> PostgresQueue:
        raise Unreachable


@both
def test_a_database_that_does_not_answer_is_a_named_error(ask: Ask) -> None:
    set_driver(Silent("default"))
    try:
        with pytest.raises(DriverUnavailable):
            ask(handle_on(new_id()))
        with pytest.raises(DriverUnavailable):
            handle_on(new_id()).status()
    finally:
        set_driver(None)


def test_a_look_reads_rows_by_their_ids() -> None:
    text = get_driver().operator.statements()["queue/find"].replace("%(id)s", f"'{new_id()}'")
    sql("SET enable_seqscan = off")
    try:
        plan = "\n".join(row[0] for row in sql(f"EXPLAIN {text}"))
    finally:
        sql("RESET enable_seqscan")

    assert "Seq Scan" not in plan
    assert plan.count("Index") >= 3
