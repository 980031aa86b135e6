"""Waiting for a result: word of the end, looks without it, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.test import override_settings

from tests.builders import PATIENCE, Declarations, Ping, second_connection, sql, wait_until
from tests.worker.running import Gate, a_worker_process, on_duty, work
from ultimate_jobs import CancelToken, Enqueued, Job
from ultimate_jobs.conf import Settings
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import Topic
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue import handles
from ultimate_jobs.errors import JobsError, JobTimeout
from ultimate_jobs.process.cancel import under
from ultimate_jobs.process.waits import asked_for, asking_for, waits
from ultimate_jobs.process.wake import listening
from ultimate_jobs.worker import waiters
from ultimate_jobs.worker.waiters import Waiters

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)


@pytest.fixture
def rare_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let waits listen at once, and look by themselves once an hour."""
    monkeypatch.setattr(handles, "FIRST_LOOK", HOUR)
    monkeypatch.setattr(handles, "LAST_LOOK", HOUR)
    monkeypatch.setattr(handles, "LISTEN_AFTER", 0.0)


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    yield
    assert waits._rings == {}
    assert waits._hearing is None
    wait_until(lambda: ears() == [], what="the listening sessions to end")


def ears() -> list[int]:
    """Answer the server processes of the sessions that listen for results alone."""
    rows = sql(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name LIKE '%% (wake)' AND query LIKE 'LISTEN ultimate_jobs_results_%%'"
        " AND state = 'idle'"
    )
    return [pid for (pid,) in rows]


def asked(queued: Enqueued) -> Future[Any]:
    return second_connection(lambda: queued.result(timeout=10 * PATIENCE))


def asked_async(queued: Enqueued) -> Future[Any]:
    return second_connection(lambda: async_to_sync(queued.aresult)(timeout=10 * PATIENCE))


@contextmanager
def a_listening_worker(*known: Job[Any, Any]) -> Iterator[Waiters]:
    """A worker on duty that is told, like the process of the command."""
    with ExitStack() as stack:
        duty = stack.enter_context(on_duty(*known))
        stack.enter_context(listening(get_driver(), Settings(), *duty.worker.subscribers()))
        yield duty.worker._outgoing.waiters


@pytest.mark.usefixtures("rare_looks")
@pytest.mark.parametrize("ask", [asked, asked_async], ids=["result", "aresult"])
def test_the_worker_tells_whoever_waits(
    declare: Declarations, gate: Gate, ask: Callable[[Enqueued], Future[Any]]
) -> None:
    def held(run: Any) -> str:
        gate.hold()
        return "told"

    holding = declare(held)
    with a_listening_worker(holding) as told:
        queued = holding.enqueue(Ping("a"))
        answer = ask(queued)
        wait_until(ears, what="the wait to listen")

        def heard() -> bool:
            get_driver().wake.tell([asking_for(queued.id)])
            return queued.id in told._awaited

        wait_until(heard, what="the worker to hear that somebody waits")
        gate.open()

        assert answer.result(PATIENCE) == "told"


@pytest.mark.usefixtures("rare_looks")
def test_what_ended_before_the_session_listened_is_found(declare: Declarations) -> None:
    answering = declare(lambda run: run.input.key)
    queued = answering.enqueue(Ping("a"))
    rung: list[str] = []

    with waits.waiting(get_driver(), queued.id, lambda: rung.append("rung")):
        wait_until(lambda: rung == ["rung"], what="a reason to look once more")


@override_settings(ULTIMATE_JOBS={"WAKE": False})
@pytest.mark.parametrize("ask", [asked, asked_async], ids=["result", "aresult"])
def test_looking_is_enough(
    declare: Declarations,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[Enqueued], Future[Any]],
) -> None:
    monkeypatch.setattr(handles, "LISTEN_AFTER", 0.0)
    answering = declare(lambda run: run.input.key)
    queued = answering.enqueue(Ping("a"))
    answer = ask(queued)

    work(answering)

    assert answer.result(PATIENCE) == "a"
    assert ears() == []


def test_looks_become_rare_and_end_with_the_time() -> None:
    wait = handles.Wait(new_id(), None)
    pauses = [wait.pause() for _ in range(12)]

    assert pauses[0] == pytest.approx(0.01)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0
    assert handles.Wait(new_id(), "500ms").pause() <= 0.5


def test_a_wait_that_is_over_soon_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "LISTEN_AFTER", PATIENCE)
    assert not handles.Wait(new_id(), None).listens()

    monkeypatch.setattr(handles, "LISTEN_AFTER", 0.0)
    wait = handles.Wait(new_id(), None)
    assert [wait.listens(), wait.listens()] == [True, False]


def test_nobody_is_told_of_a_job_that_nobody_asks_for(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handles, "LISTEN_AFTER", 10 * PATIENCE)
    ping = declare()
    session = get_driver().wake.listen(Topic.RESULTS)
    try:
        with a_listening_worker(ping):
            queued = ping.enqueue_many([Ping(str(n)) for n in range(5)])
            for one in queued:
                one.result(PATIENCE)
        get_driver().wake.tell(["the end"])
        words: list[str] = []
        while "the end" not in words:
            words += [notice.text for notice in session.receive(PATIENCE)]
    finally:
        session.close()

    assert {str(one.id) for one in queued}.isdisjoint(words)


def test_many_waits_of_a_process_share_a_session(declare: Declarations) -> None:
    ping = declare(lambda run: run.input.key)
    queued = ping.enqueue_many([Ping(str(n)) for n in range(3)])
    rung = [threading.Event() for _ in queued]

    with (
        waits.waiting(get_driver(), queued[0].id, rung[0].set),
        waits.waiting(get_driver(), queued[0].id, rung[1].set),
        waits.waiting(get_driver(), queued[2].id, rung[2].set),
    ):
        wait_until(lambda: all(one.is_set() for one in rung), what="the session")
        for one in rung:
            one.clear()
        get_driver().wake.tell(["nonsense", asking_for(queued[2].id), str(queued[0].id)])
        assert rung[0].wait(PATIENCE)
        assert rung[1].wait(PATIENCE)
        assert not rung[2].is_set()
        assert len(ears()) == 1


def test_a_session_that_is_lost_is_dialled_again() -> None:
    rung: list[str] = []
    with waits.waiting(get_driver(), new_id(), lambda: rung.append("rung")):
        wait_until(ears, what="the session")
        first = ears()
        for pid in first:
            sql("SELECT pg_terminate_backend(%s)", [pid])
        wait_until(lambda: ears() not in ([], first), what="another session")
        wait_until(lambda: len(rung) >= 2, what="a reason to look once more")


def test_a_cancelled_task_leaves_no_wait(declare: Declarations) -> None:
    queued = declare().enqueue(Ping("a"))

    async def give_up() -> None:
        waiting = asyncio.ensure_future(queued.aresult())
        await sync_to_async(wait_until, thread_sensitive=False)(lambda: waits._rings)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    async_to_sync(give_up)()


def test_a_loop_that_is_closed_keeps_no_other_from_being_told() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    rung = threading.Event()
    job = new_id()

    with (
        waits.waiting(get_driver(), job, partial(loop.call_soon_threadsafe, print)),
        waits.waiting(get_driver(), job, rung.set),
    ):
        assert rung.wait(PATIENCE)


def test_a_body_that_is_told_to_stop_waits_no_longer(declare: Declarations) -> None:
    queued = declare().enqueue(Ping("a"))
    token = CancelToken()
    token.abort(JobTimeout("The attempt took too long."))

    with under(token), pytest.raises(JobsError, match="X_JOB_TIMEOUT"):
        queued.result()


def test_a_forked_process_begins_with_no_waits() -> None:
    with waits.waiting(get_driver(), new_id(), print):
        child = os.fork()
        if child == 0:  # nothing but this: the child shares the test's connections
            os._exit(0 if waits._rings == {} and waits._hearing is None else 1)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


def test_a_word_asks_or_does_not() -> None:
    job = new_id()

    assert asked_for(asking_for(job)) == job
    assert [asked_for(word) for word in (str(job), "?", "mail?", "")] == [None] * 4


def test_who_has_been_told_is_not_told_again(declare: Declarations) -> None:
    ping = declare()
    queued = ping.enqueue(Ping("a"))
    worker = a_worker_process(ping)
    mind = worker._outgoing.waiters
    mind.heard(asking_for(queued.id))

    session = get_driver().wake.listen(Topic.RESULTS)
    try:
        worker.run(until_idle=True)
        assert [notice.text for notice in session.receive(PATIENCE)] == [str(queued.id)]
    finally:
        session.close()

    assert mind._awaited == {}


def test_a_worker_keeps_so_many_waits_in_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiters, "MOST", 2)
    mind = Waiters(get_driver())
    first, second, third = new_id(), new_id(), new_id()

    for job in (first, second, third):
        mind.heard(asking_for(job))
    assert set(mind._awaited) == {first, second}

    mind._awaited[first] = 0.0
    mind.heard(asking_for(third))
    assert set(mind._awaited) == {second, third}


def test_a_worker_wants_word_of_work_and_of_waits() -> None:
    topics = [one.topic for one in a_worker_process().subscribers()]

    assert topics == [Topic.JOBS, Topic.RESULTS]
