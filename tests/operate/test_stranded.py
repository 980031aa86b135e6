"""Jobs that are due and that no living worker can take."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.builders import (
    PING,
    Declarations,
    a_job,
    a_worker,
    presence,
    reloaded,
    some_jobs,
    wait_until,
)
from tests.commands.manage import manage
from tests.worker.running import on_duty
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.models import Worker
from ultimate_jobs.operate import stranded
from ultimate_jobs.operate.health import Limits, health
from ultimate_jobs.operate.overview import overview
from ultimate_jobs.operate.pauses import pause_queue, resume_queue
from ultimate_jobs.operate.stranded import stranded_jobs

pytestmark = pytest.mark.django_db(transaction=True)

AGO, LONG_AGO, LATER = timedelta(minutes=-5), timedelta(hours=-2), timedelta(hours=1)
JUST_NOW = timedelta(seconds=-1)


def knows(*jobs: str, name: str = "w", queues: tuple[str, ...] = ("default",), **more: Any) -> None:
    """Write a worker that serves ``queues`` and knows ``jobs``."""
    a_worker(name, queues=list(queues), jobs=list(jobs), **more)


def why() -> dict[tuple[str, str], str]:
    return {(group["queue"], group["name"]): group["why"] for group in stranded_jobs()}


def test_a_job_is_stranded_until_a_living_worker_of_its_queue_knows_it() -> None:
    a_job(name="new", due_in=AGO)
    assert why() == {("default", "new"): "no worker lives"}

    knows("new", queues=("mail",))
    assert why() == {("default", "new"): "no worker serves its queue"}

    knows("old", name="old")
    assert why() == {("default", "new"): "no worker knows it"}

    knows("old", "new", name="new")
    assert why() == {}


def test_a_worker_whose_sign_of_life_lapsed_takes_nothing() -> None:
    a_job(due_in=AGO)
    knows(PING, alive_for=timedelta(seconds=-1))

    assert why() == {("default", PING): "no worker lives"}


@pytest.mark.parametrize(
    "columns",
    [
        {"state": JobState.DELAYED, "due_in": LATER},
        {"state": JobState.SUSPENDED, "due_in": LATER},
        {"due_in": JUST_NOW},
        {"due_in": AGO, "blocked": True, "lease_key": "job:tests.ping"},
        {"state": JobState.RUNNING, "due_in": AGO},
        {"state": JobState.DEAD, "due_in": AGO},
    ],
    ids=["delayed", "asleep", "due just now", "standing by", "running", "dead"],
)
def test_what_no_worker_should_have_taken_is_not_stranded(columns: dict[str, Any]) -> None:
    a_job(**columns)

    assert stranded_jobs() == []


@pytest.mark.parametrize("state", [JobState.READY, JobState.DELAYED, JobState.SUSPENDED])
def test_whatever_a_claim_would_take_can_be_stranded(state: JobState) -> None:
    a_job(state, due_in=AGO)

    assert why() == {("default", PING): "no worker lives"}


def test_a_paused_queue_strands_nothing_until_it_is_resumed() -> None:
    a_job(due_in=AGO)
    pause_queue("default")
    assert stranded_jobs() == []

    resume_queue("default")
    assert len(stranded_jobs()) == 1


def test_stranded_jobs_are_counted_by_queue_and_name_with_the_oldest_wait() -> None:
    some_jobs(2, name="a", due_in=AGO, priority=5)
    a_job(name="a", due_in=LONG_AGO, priority=-5)
    a_job(name="b", due_in=AGO)
    a_job(name="a", queue="mail", due_in=AGO)

    groups = stranded_jobs()

    found = [(group["queue"], group["name"], group["count"]) for group in groups]
    assert found == [("default", "a", 3), ("default", "b", 1), ("mail", "a", 1)]
    assert groups[0]["oldest_seconds"] >= 7_200 > groups[1]["oldest_seconds"] >= 300
    assert [group["queue"] for group in stranded_jobs(["mail"])] == ["mail"]


def test_a_count_that_reached_the_window_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stranded, "WINDOW", 4)
    some_jobs(5, name="urgent", due_in=AGO, priority=9)
    a_job(name="humble", due_in=AGO)
    some_jobs(3, queue="mail", due_in=AGO)

    found = {group["name"]: (group["count"], group["capped"]) for group in stranded_jobs()}

    assert found == {"urgent": (2, True), "humble": (1, True), PING: (3, False)}


def test_every_sign_of_life_says_what_the_worker_knows() -> None:
    get_driver().queue.heartbeat(presence(), [], timedelta(minutes=1))
    assert Worker.objects.get().jobs == [PING]
    Worker.objects.update(jobs=[])

    get_driver().queue.heartbeat(presence(), [], timedelta(minutes=1))

    assert Worker.objects.get().jobs == [PING]


def test_a_worker_takes_what_it_knows_and_what_it_does_not_know_is_reported(
    declare: Declarations,
) -> None:
    known = declare()
    job = a_job(name=known.name, due_in=AGO)
    foreign = a_job(name="unheard-of", due_in=AGO)
    assert why() == {
        ("default", known.name): "no worker lives",
        ("default", "unheard-of"): "no worker lives",
    }

    with on_duty(known):
        wait_until(lambda: reloaded(job).state == "done" and Worker.objects.exists())
        assert Worker.objects.get().jobs == [known.name]
        assert why() == {("default", "unheard-of"): "no worker knows it"}

    foreign.refresh_from_db()
    assert (foreign.state, foreign.attempt) == ("ready", 0)


def test_health_compares_the_stranded_jobs_of_a_queue_with_the_limit() -> None:
    some_jobs(2, name="a", due_in=AGO)
    a_job(name="b", due_in=AGO)
    a_job(name="b", queue="mail", due_in=AGO)

    assert health(Limits())["healthy"]
    assert health(Limits(max_stranded=3))["healthy"]
    found = health(Limits(max_stranded=2))
    assert found["problems"] == [
        {"limit": "max_stranded", "queue": "default", "value": 3, "most": 2}
    ]
    assert len(found["stranded"]) == 3
    assert [problem["queue"] for problem in health(Limits(max_stranded=0))["problems"]] == [
        "default",
        "mail",
    ]
    assert health(Limits(max_stranded=0, queues=("quiet",)))["healthy"]


def test_the_commands_show_what_is_stranded() -> None:
    assert "stranded" not in manage("jobs", "stats").out
    a_job(name="shop.new", due_in=AGO)
    knows("shop.old")

    line = "stranded: 1 of shop.new in default, the oldest for 5 min"
    assert line in manage("jobs", "stats").out
    assert line in manage("jobs", "watch", "--count", "1").out
    (group,) = manage("jobs", "stats", "--json").document["stranded"]
    assert (group["name"], group["why"]) == ("shop.new", "no worker knows it")
    assert overview()["stranded"][0]["name"] == "shop.new"
    assert manage("jobs", "health").code == 0
    unhealthy = manage("jobs", "health", "--max-stranded", "0")
    assert unhealthy.code == 1
    assert "max_stranded: default has 1, at most 0" in unhealthy.out
    assert manage("jobs", "health", "--max-stranded", "1").code == 0
