"""``manage.py jobs_worker``: what its options do, and what it says to wrong ones."""

from __future__ import annotations

import contextlib
import threading

import pytest
from django.db import transaction
from pytest_django import Settings

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    a_job,
    staged,
    states,
    without_slots,
)
from tests.commands.manage import manage
from ultimate_jobs import Retry, Run
from ultimate_jobs.models import Job as JobRow

pytestmark = pytest.mark.django_db(transaction=True)


def test_draining_runs_what_is_due_and_exits_0(declare: Declarations) -> None:
    ping = declare(lambda run: run.input.key)
    ping.enqueue_many([Ping("a"), Ping("b")])
    ping.enqueue(Ping("later"), delay="1h")

    answer = manage("jobs_worker", "--drain")

    assert answer.code == 0
    assert states() == {"delayed": 1, "done": 2}


def test_a_queue_takes_no_more_bodies_than_its_part_on_the_command_line(
    declare: Declarations,
) -> None:
    lock, inside, most = threading.Lock(), [0], [0]
    pause = threading.Event()

    def body(run: Run[Ping]) -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        pause.wait(0.02)
        with lock:
            inside[0] -= 1

    slow = declare(body, queue="slow")
    slow.enqueue_many([Ping(str(n)) for n in range(8)])

    assert manage("jobs_worker", "--drain", "--concurrency", "4", "--queues", "a,slow=1").code == 0
    assert states() == {"done": 8}
    assert most == [1]


def test_draining_does_not_wait_for_a_retry(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> None:
        raise ValueError

    ping = declare(body, retry=Retry(attempts=2, delay="1h"))
    ping.enqueue(Ping("a"))

    assert manage("jobs_worker", "--drain").code == 0
    row = JobRow.objects.get()
    assert (row.state, row.attempt) == ("ready", 1)


def test_draining_leaves_jobs_that_are_not_known_here_alone() -> None:
    a_job(name="tests.of_another_release")

    assert manage("jobs_worker", "--drain").code == 0
    assert states() == {"ready": 1}


def test_draining_an_empty_queue_exits_0() -> None:
    assert manage("jobs_worker", "--drain").code == 0


def test_draining_leaves_staged_rows_to_the_relay_unless_it_runs_too(
    declare: Declarations,
) -> None:
    ping = declare()
    with transaction.atomic():
        ping.enqueue_many([Ping("a"), Ping("b")])

    assert manage("jobs_worker", "--drain").code == 0
    assert (len(staged()), states()) == (2, {})

    assert manage("jobs_worker", "--drain", "--with", "relay").code == 0
    assert (len(staged()), states()) == (0, {"done": 2})


def test_what_a_drained_body_stages_is_drained_as_well(declare: Declarations) -> None:
    second = declare()

    def body(run: Run[Ping]) -> None:
        with transaction.atomic():
            second.enqueue(Ping("next"))

    first = declare(body)
    with transaction.atomic():
        first.enqueue(Ping("a"))

    assert manage("jobs_worker", "--drain", "--with", "relay").code == 0
    assert states() == {"done": 2}


def test_only_the_named_queues_are_served(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    ping = declare()
    for queue in ("a", "b", "c", "d"):
        ping.enqueue(Ping(queue), queue=queue)

    manage("jobs_worker", "--drain", "--queues", "a, b")
    assert _done() == ["a", "b"]

    monkeypatch.setenv("WORKER_QUEUES", "c")
    manage("jobs_worker", "--drain")
    assert _done() == ["a", "b", "c"]

    manage("jobs_worker", "--drain", "--queues", "d")
    assert _done() == ["a", "b", "c", "d"], "the option goes before the environment"


def test_the_queues_of_the_settings_are_served_when_nothing_else_names_any(
    declare: Declarations, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORKER_QUEUES", raising=False)
    settings.ULTIMATE_JOBS = {"QUEUES": ["a", "c"]}
    ping = declare()
    for queue in ("a", "b", "c", "default"):
        ping.enqueue(Ping(queue), queue=queue)

    assert manage("jobs_worker", "--drain").code == 0
    assert _done() == ["a", "c"]


def _done() -> list[str]:
    return sorted(JobRow.objects.filter(state="done").values_list("queue", flat=True))


def test_as_many_bodies_run_at_once_as_the_option_says(declare: Declarations) -> None:
    together = threading.Barrier(3)
    ping = declare(lambda run: together.wait(PATIENCE))
    ping.enqueue_many([Ping(f"k-{n}") for n in range(3)])

    assert manage("jobs_worker", "--drain", "--concurrency", "3").code == 0
    assert states() == {"done": 3}


def test_one_body_runs_at_a_time_when_the_option_says_so(declare: Declarations) -> None:
    together = threading.Barrier(2)
    company: list[str] = []

    def body(run: Run[Ping]) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.2)
            company.append(run.input.key)

    ping = declare(body)
    ping.enqueue_many([Ping("a"), Ping("b")])

    assert manage("jobs_worker", "--drain", "--concurrency", "1").code == 0
    assert states() == {"done": 2}
    assert company == []


def test_a_worker_is_called_as_it_is_told(declare: Declarations) -> None:
    def body(run: Run[Ping]) -> str | None:
        return JobRow.objects.get(id=run.job_id).claimed_by

    ping = declare(body)
    ping.enqueue(Ping("a"))

    manage("jobs_worker", "--drain", "--name", "pod-0")

    assert str(JobRow.objects.get().result).startswith("pod-0:")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--concurrency", "0"), "'0' is no whole number from 1"),
        (("--concurrency", "-1"), "no whole number from 1"),
        (("--concurrency", "1.5"), "no whole number from 1"),
        (("--concurrency", "many"), "no whole number from 1"),
        (("--queues", " , "), "name at least one"),
        (("--with", "clock"), "argument --with: takes relay, scheduler; not clock"),
        (("--with", "relay,cook"), "argument --with: takes relay, scheduler; not cook"),
        (("--colour",), "unrecognized arguments: --colour"),
        (("stray",), "unrecognized arguments: stray"),
    ],
)
def test_a_wrong_option_is_named_and_exits_2(arguments: tuple[str, ...], words: str) -> None:
    answer = manage("jobs_worker", "--drain", *arguments)

    assert answer.code == 2
    assert words in answer.err
    assert answer.out == ""


def test_a_cap_the_driver_cannot_hold_is_named_and_exits_2(declare: Declarations) -> None:
    capped = declare(concurrency=2)

    with without_slots():
        answer = manage("jobs_worker", "--drain")

    assert answer.code == 2
    assert "X_JOB_CONCURRENCY_UNENFORCEABLE" in answer.err
    assert capped.name in answer.err


def test_an_environment_that_names_no_queue_is_as_good_as_none(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    ping = declare()
    ping.enqueue(Ping("a"))
    monkeypatch.setenv("WORKER_QUEUES", " , ")

    assert manage("jobs_worker", "--drain").code == 0
    assert states() == {"done": 1}


def test_an_environment_that_names_no_possible_queue_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORKER_QUEUES", "default," + "q" * 201)

    answer = manage("jobs_worker", "--drain")

    assert answer.code == 2
    assert "X_CONFIG_INVALID: WORKER_QUEUES: a queue name must be text" in answer.err
