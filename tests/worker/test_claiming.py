"""What a worker takes: only what it knows, what is not paused, and a fair part of every queue."""

from __future__ import annotations

from collections import Counter as Tally
from typing import Any

import pytest

from tests.builders import Declarations, Ping, a_job, some_jobs, sql, states, wait_until
from tests.worker.running import Gate, a_worker_process, on_duty, work
from ultimate_jobs import Job, Run
from ultimate_jobs.conf import get_settings
from ultimate_jobs.definitions.registry import Registry
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import Job as JobRow, Pause
from ultimate_jobs.worker.claimer import Claimer, still_full
from ultimate_jobs.worker.rooms import Rooms

pytestmark = pytest.mark.django_db(transaction=True)

INPUT = {"key": "a", "org": "acme", "load": None}


def by_queue() -> dict[str, int]:
    running = JobRow.objects.filter(state="running").values_list("queue", flat=True)
    return dict(Tally(running))


@pytest.mark.parametrize(
    ("room", "queues", "share"), [(8, 1, 8), (8, 2, 4), (8, 3, 3), (2, 5, 1), (1, 1, 1)]
)
def test_room_is_shared_equally_and_rounded_up(room: int, queues: int, share: int) -> None:
    names = [str(number) for number in range(queues)]

    assert Rooms(room, {}).shares(names) == [share] * queues


def test_no_queue_gets_more_than_its_own_cap_leaves() -> None:
    rooms = Rooms.left(10, {"slow": 2, "full": 1}, ["slow", "full", "fast"], hooks=1)

    assert rooms == Rooms(6, {"slow": 1, "full": 0})
    assert rooms.with_room(["slow", "full", "fast"]) == ["slow", "fast"]
    assert rooms.shares(["slow", "fast"]) == [1, 3]
    assert rooms.after(["slow", "fast", "fast"]) == Rooms(3, {"slow": 0, "full": 0})


def test_only_queues_that_used_up_their_share_are_asked_again() -> None:
    queues = ["a", "b", "c"]

    assert still_full(queues, ["a", "a", "b"], [2, 2, 2]) == ["a"]
    assert still_full(queues, ["c", "c", "a", "a"], [2, 1, 2]) == ["a", "c"]
    assert still_full(queues, [], [2, 2, 2]) == []


def a_claimer(*queues: str, knows: Job[Any, Any]) -> Claimer:
    known = Registry()
    known.add(knows)
    return Claimer(get_driver(), known, get_settings(), "tests-worker", queues)


def test_every_queue_gets_its_share_of_the_room(declare: Declarations) -> None:
    ping = declare()
    for queue in ("a", "b", "c"):
        some_jobs(20, name=ping.name, queue=queue)

    claims = a_claimer("a", "b", "c", knows=ping).take(Rooms(9, {}))

    assert len(claims.jobs) == 9
    assert by_queue() == {"a": 3, "b": 3, "c": 3}


def test_what_one_queue_leaves_goes_to_those_that_hold_more(declare: Declarations) -> None:
    ping = declare()
    some_jobs(20, name=ping.name, queue="a")
    some_jobs(1, name=ping.name, queue="b")

    claims = a_claimer("a", "b", "c", knows=ping).take(Rooms(9, {}))

    assert len(claims.jobs) == 9
    assert by_queue() == {"a": 8, "b": 1}


def test_more_queues_than_room_take_turns(declare: Declarations) -> None:
    ping = declare()
    for queue in ("a", "b", "c"):
        some_jobs(5, name=ping.name, queue=queue)
    claimer = a_claimer("a", "b", "c", knows=ping)

    taken = [job.queue for _ in range(6) for job in claimer.take(Rooms(1, {})).jobs]

    assert Tally(taken) == {"a": 2, "b": 2, "c": 2}


def test_a_claim_never_holds_more_than_there_is_room_for(declare: Declarations, gate: Gate) -> None:
    ping = declare(lambda run: gate.hold())
    a_job(name=ping.name, input=INPUT)
    sql("VACUUM ANALYZE x_jobs")
    some_jobs(40, name=ping.name, input=INPUT)
    with on_duty(ping, concurrency=2) as duty:
        gate.arrived(2)
        seen = len(duty.statements)
        assert states() == {"ready": 39, "running": 2}
        assert len(duty.statements) == seen, "a full worker does not even look"
        gate.open()
        wait_until(lambda: states() == {"done": 41})


def test_jobs_of_unknown_names_are_left_alone_and_block_nobody(declare: Declarations) -> None:
    known, unknown = declare(), declare()
    unknown.enqueue_many([Ping(f"u-{n}") for n in range(50)], priority=1)
    known.enqueue_many([Ping(f"k-{n}") for n in range(10)])
    before = list(JobRow.objects.filter(name=unknown.name).values().order_by("id"))

    work(known)

    assert list(JobRow.objects.filter(name=unknown.name).values().order_by("id")) == before
    assert JobRow.objects.filter(name=known.name, state="done").count() == 10

    work(known, unknown)

    assert set(JobRow.objects.values_list("state", "attempt")) == {("done", 1)}


def test_a_paused_queue_is_not_claimed_from_until_the_pause_ends(declare: Declarations) -> None:
    ping = declare()
    ping.enqueue(Ping("paused"), queue="mail")
    ping.enqueue(Ping("other"))
    pause = Pause.objects.create(kind="queue", name="mail")

    work(ping, queues=["default", "mail"])
    assert JobRow.objects.get(queue="mail").state == "ready"
    assert JobRow.objects.get(queue="default").state == "done"

    pause.delete()
    work(ping, queues=["default", "mail"])
    assert states() == {"done": 2}


def test_a_worker_serves_only_its_queues(declare: Declarations) -> None:
    ping = declare()
    ping.enqueue(Ping("a"), queue="mail")
    ping.enqueue(Ping("b"))

    work(ping, queues=["mail"])

    assert JobRow.objects.get(queue="mail").state == "done"
    assert JobRow.objects.get(queue="default").state == "ready"


def test_a_queue_named_twice_counts_once(declare: Declarations) -> None:
    ping = declare()

    worker = a_worker_process(ping, queues=["a", "b", "a"])

    assert worker.stats.queues == ["a", "b"]


def test_urgent_work_goes_first_and_then_the_oldest(declare: Declarations) -> None:
    order: list[str] = []
    ping = declare(lambda run: order.append(run.input.key))
    for key, priority in (("first", 0), ("second", 0), ("urgent", 5), ("later", -5)):
        ping.enqueue(Ping(key), priority=priority)

    work(ping, concurrency=1)

    assert order == ["urgent", "first", "second", "later"]


def test_work_that_is_due_later_waits(declare: Declarations) -> None:
    ping = declare()
    ping.enqueue(Ping("later"), delay="1h")
    ping.enqueue(Ping("now"))

    work(ping)

    assert states() == {"delayed": 1, "done": 1}


def test_two_workers_share_the_work_and_run_nothing_twice(declare: Declarations) -> None:
    runs: list[tuple[str, int]] = []

    def body(run: Run[Ping]) -> None:
        runs.append((run.input.key, run.attempt))

    ping = declare(body)
    ping.enqueue_many([Ping(f"k-{n:03}") for n in range(200)])
    with on_duty(ping, concurrency=3), on_duty(ping, concurrency=3):
        wait_until(lambda: states() == {"done": 200})

    assert sorted(runs) == [(f"k-{n:03}", 1) for n in range(200)]
