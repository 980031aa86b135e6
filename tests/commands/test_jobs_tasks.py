"""``manage.py jobs tasks``: what tasks are there, and what an operator does to them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.builders import Declarations, Ping, live
from tests.commands.manage import manage
from ultimate_jobs import Job
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.definitions.task import Task, task
from ultimate_jobs.models import Pause, TaskState

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "tests.nightly"


@pytest.fixture
def ping(declare: Declarations) -> Job[Ping, object]:
    return declare()


@pytest.fixture
def nightly(ping: Job[Ping, object]) -> Iterator[Task]:
    declared = task(
        name=NAME,
        cron="30 6 * * *",
        tz="Europe/Berlin",
        enqueue=lambda occurrence: [(ping, Ping("a"))],
    )
    yield declared
    tasks.discard(declared)


def test_the_list_names_every_task_with_its_last_fire_and_its_next(nightly: Task) -> None:
    TaskState.objects.create(
        name=NAME,
        rule="30 6 * * * Europe/Berlin",
        watermark=datetime(2026, 7, 1, 4, 30, tzinfo=UTC),
        last_fired=datetime(2026, 7, 1, 4, 30, tzinfo=UTC),
        fired_at=datetime(2026, 7, 1, 4, 30, 1, tzinfo=UTC),
    )

    listed = manage("jobs", "tasks", "list", "--json").document["tasks"]

    assert [one["name"] for one in listed] == tasks.names()
    (shown,) = (one for one in listed if one["name"] == NAME)
    assert shown["last_occurrence"] == "2026-07-01T06:30:00+02:00"
    assert shown["fired_at"] == "2026-07-01T06:30:01+02:00"
    assert shown["paused"] is False
    following = datetime.fromisoformat(shown["next"])
    assert (following.hour, following.minute) == (6, 30)
    assert timedelta(0) < following - datetime.now(UTC) <= timedelta(days=1, hours=1)  # noqa: TID251
    assert NAME in manage("jobs", "tasks", "list").out


def test_a_task_is_shown_with_its_next_occurrences(nightly: Task, ping: Job[Ping, object]) -> None:
    shown = manage("jobs", "tasks", "show", NAME, "--count", "50", "--json").document

    assert (shown["cron"], shown["tz"], shown["jobs"]) == (
        "30 6 * * *",
        "Europe/Berlin",
        [ping.name],
    )
    upcoming = [datetime.fromisoformat(text) for text in shown["upcoming"]]
    assert len(upcoming) == 50
    assert shown["upcoming"][0] == shown["next"]
    assert all(one < other for one, other in pairwise(upcoming))
    assert {one.hour for one in upcoming} == {6}
    assert shown["last_occurrence"] is None


def test_five_occurrences_are_shown_by_default(nightly: Task) -> None:
    assert len(manage("jobs", "tasks", "show", NAME, "--json").document["upcoming"]) == 5
    assert "06:30:00+0" in manage("jobs", "tasks", "show", NAME).out


@pytest.mark.parametrize("count", ["0", "x", "51"])
def test_a_wrong_count_is_refused(nightly: Task, count: str) -> None:
    answer = manage("jobs", "tasks", "show", NAME, "--count", count)

    assert answer.code == (1 if count == "51" else 2)
    assert "--count" in answer.err


def test_a_task_is_fired_by_hand_beside_its_schedule(
    nightly: Task, ping: Job[Ping, object]
) -> None:
    manage("jobs", "tasks", "pause", NAME)

    first = manage("jobs", "tasks", "fire", NAME, "--json").document["jobs"]
    second = manage("jobs", "tasks", "fire", NAME, "--json").document["jobs"]

    (row,) = live(ping.name)
    assert row.idempotency_key == "a"
    assert [(job["id"], job["deduped"]) for job in first + second] == [
        (str(row.id), False),
        (str(row.id), True),
    ]
    assert not TaskState.objects.exists()
    assert "already live" in manage("jobs", "tasks", "fire", NAME).out


def test_a_task_is_paused_and_resumed(nightly: Task) -> None:
    paused = manage("jobs", "tasks", "pause", NAME, "--reason", "audit", "--json").document

    assert (paused["paused"], paused["pause_reason"]) == (True, "audit")
    assert paused["paused_at"][-6:] in {"+01:00", "+02:00"}
    assert Pause.objects.get().kind == "task"
    assert "paused" in manage("jobs", "tasks", "list").out

    resumed = manage("jobs", "tasks", "resume", NAME, "--json").document
    assert (resumed["paused"], resumed["paused_at"]) == (False, None)
    assert not Pause.objects.exists()


@pytest.mark.parametrize("verb", ["show", "fire", "pause", "resume"])
def test_an_unknown_task_is_refused(verb: str) -> None:
    answer = manage("jobs", "tasks", verb, "tests.nobody", "--json")

    assert answer.code == 1
    assert answer.document["error"]["code"] == "X_TASK_UNKNOWN"
    assert "manage.py jobs tasks list" in answer.document["error"]["fix"]
