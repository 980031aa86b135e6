"""The pages of tasks: what they show, who leads, and the verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.admin.utils import quote
from django.db.models.functions import Now
from django.test import Client

from tests.admin.people import log, said, seen, somebody, statements, url
from tests.builders import Declarations, Ping, staged
from ultimate_jobs import Job
from ultimate_jobs.definitions.task import Task
from ultimate_jobs.models import OutboxEntry, Pause, SchedulerLeader, TaskState

pytestmark = pytest.mark.django_db

NAME = "tests.nightly"
PERMISSION = {"fire": "fire_task", "pause": "pause_task", "resume": "resume_task"}
DeclareTask = Callable[..., Task]


@pytest.fixture
def client() -> Client:
    return somebody("view_taskstate", *PERMISSION.values())


@pytest.fixture
def ping() -> Iterator[Job[Ping, object]]:
    with Declarations() as declare:
        yield declare()


@pytest.fixture
def nightly(declare_task: DeclareTask, ping: Job[Ping, object]) -> Task:
    return declare_task(
        NAME,
        cron="30 6 * * *",
        tz="Europe/Berlin",
        catch_up="run-all",
        max_catch_up=31,
        enqueue=lambda occurrence: [(ping, Ping("a")), (ping, Ping("b"))],
    )


def fired(name: str = NAME, rule: str = "30 6 * * * Europe/Berlin") -> None:
    at = datetime(2026, 7, 1, 4, 30, tzinfo=UTC)
    TaskState.objects.create(
        name=name, rule=rule, watermark=at, last_fired=at, fired_at=at + timedelta(seconds=2)
    )


def words(client: Client, page: str) -> str:
    return " ".join(seen(client.get(page)).text.split())


def task_page(name: str = NAME) -> str:
    return url("taskstate_change", quote(name))


def test_the_list_shows_when_tasks_fire_by_their_own_clocks(client: Client, nightly: Task) -> None:
    fired()
    Pause.objects.create(kind="task", name=NAME, paused_by="grace", reason="a move")

    shown = words(client, url("taskstate_changelist"))

    assert f"{NAME} paused by grace, " in shown
    assert ": a move 30 6 * * * Europe/Berlin run-all at most 31" in shown
    assert "2026-07-01 06:30:00 fired 2026-07-01 06:30:02" in shown
    assert "ultimate_jobs.purge" in shown
    assert "Known to rows only" not in shown


def test_the_list_is_one_statement_and_calls_no_function_of_a_task(
    client: Client, declare_task: DeclareTask
) -> None:
    called: list[datetime] = []
    for number in range(5):
        declare_task(f"tests.t-{number}", enqueue=called.append)

    assert len(statements(lambda: client.get(url("taskstate_changelist")))) == 1
    assert called == []


def test_a_task_that_only_rows_tell_of_is_shown_as_such(client: Client, nightly: Task) -> None:
    fired("gone.task", rule="5 4 * * * Asia/Tokyo")
    Pause.objects.create(kind="task", name="paused.task", paused_by="ada")

    shown = words(client, url("taskstate_changelist")).partition("Known to rows only")[2]

    assert "gone.task 5 4 * * * Asia/Tokyo 2026-07-01 04:30:00 fired 2026-07-01 04:30:02" in shown
    assert "paused.task paused" in shown
    assert NAME not in shown
    assert NAME in words(client, task_page())
    answer = client.get(task_page("gone.task"), follow=True)
    assert said(answer) == ["No task of this process has this name."]


def test_the_leader_is_named_and_none_is_a_warning(client: Client) -> None:
    page = url("taskstate_changelist")
    assert "No scheduler leads" in words(client, page)

    leader = SchedulerLeader.objects.create(
        id=1, holder="web-1:77", expires_at=Now() - timedelta(seconds=1)
    )
    assert "No scheduler leads" in words(client, page)

    leader.expires_at = datetime(2126, 7, 1, 4, 30, tzinfo=UTC)
    leader.save()
    shown = words(client, page)
    assert "No scheduler leads" not in shown
    assert "Scheduler web-1:77 leads since" in shown
    assert "until 2126-07-01 04:30:00" in shown


def test_the_page_of_a_task_shows_what_comes(
    client: Client, nightly: Task, ping: Job[Ping, object]
) -> None:
    fired()

    answer = client.get(task_page())

    upcoming = [datetime.fromisoformat(row["instant"]) for row in answer.context["upcoming"]]
    assert len(upcoming) == 10
    assert {(at.hour, at.minute) for at in upcoming} == {(6, 30)}
    assert {row["offset"] for row in answer.context["upcoming"]} <= {"+01:00", "+02:00"}
    shown = " ".join(seen(answer).text.split())
    assert shown.count(ping.name) == 1
    assert "2026-07-01 06:30:00" in shown
    jobs = url("job_changelist", name=ping.name)
    assert jobs not in answer.content.decode()
    sees_jobs = somebody("view_taskstate", "view_job")
    assert jobs in sees_jobs.get(task_page()).content.decode()


def test_a_task_whose_function_fails_has_a_page_and_is_not_fired(
    client: Client, declare_task: DeclareTask
) -> None:
    def broken(occurrence: datetime) -> list[tuple[Job[Ping, object], Ping]]:
        raise LookupError("card 4111")

    declare_task(NAME, enqueue=broken)

    assert "None, or its function raises." in words(client, task_page())
    answer = client.post(url("taskstate_act", "fire"), {"task": NAME}, follow=True)
    assert answer.status_code == 200
    (told,) = said(answer)
    assert "raised LookupError" in told
    assert "4111" not in told
    assert log() == []


def test_a_task_is_fired_now(client: Client, nightly: Task, ping: Job[Ping, object]) -> None:
    target = url("taskstate_act", "fire")
    assert client.get(url("taskstate_act", "fire", task=NAME)).status_code == 200
    assert not OutboxEntry.objects.exists()

    done = client.post(target, {"task": NAME, "reason": "asked by Ann"}, follow=True)

    assert said(done) == [f"The task {NAME} was fired: 2 jobs enqueued."]
    assert len(staged(ping.name)) == 2
    again = client.post(target, {"task": NAME}, follow=True)
    assert said(again) == [f"The task {NAME} was fired: 0 jobs enqueued, 2 there already."]
    first, _ = log()
    assert first.change_message == (
        f"Fire: fired the task {NAME}: 2 jobs enqueued; reason: asked by Ann"
    )
    assert (first.object_id, str(first.content_type)) == (NAME, "Jobs | task")


def test_a_task_is_paused_and_resumed(client: Client, nightly: Task) -> None:
    pause, resume = (url("taskstate_act", verb) for verb in ("pause", "resume"))
    done = client.post(pause, {"task": NAME, "reason": "a move"}, follow=True)

    assert said(done) == [f"The task {NAME} was paused."]
    row = Pause.objects.get()
    assert (row.kind, row.name, row.reason) == ("task", NAME, "a move")
    assert row.paused_by == done.context["user"].get_username()
    assert url("taskstate_act", "resume", task=NAME) in done.content.decode()
    again = client.post(pause, {"task": NAME}, follow=True)
    assert said(again) == [f"The task {NAME} was paused before."]
    done = client.post(resume, {"task": NAME}, follow=True)
    assert said(done) == [f"The task {NAME} was resumed."]
    assert not Pause.objects.exists()
    again = client.post(resume, {"task": NAME}, follow=True)
    assert said(again) == [f"The task {NAME} was not paused."]
    history = words(client, url("taskstate_history", quote(NAME)))
    assert "Pause: paused the task" in history
    assert [line.change_message for line in log()] == [
        f"Pause: paused the task {NAME}; reason: a move",
        f"Resume: resumed the task {NAME}",
    ]


@pytest.mark.parametrize("verb", PERMISSION)
def test_a_verb_is_hidden_and_refused_without_its_permission(verb: str, nightly: Task) -> None:
    if verb == "resume":
        Pause.objects.create(kind="task", name=NAME)
    others = set(PERMISSION.values()) - {PERMISSION[verb]}
    before = list(Pause.objects.values())
    target = url("taskstate_act", verb)

    for client in (
        somebody("view_taskstate"),
        somebody("view_taskstate", "pause_queue", "resume_queue", *others),
        somebody(PERMISSION[verb]),
    ):
        assert client.get(target).status_code == 403
        assert client.post(target, {"task": NAME}).status_code == 403
    without, may = somebody("view_taskstate", *others), somebody("view_taskstate", PERMISSION[verb])
    for page in (url("taskstate_changelist"), task_page()):
        offered = url("taskstate_act", verb, task=NAME)
        assert offered not in without.get(page).content.decode()
        assert offered in may.get(page).content.decode()
    assert list(Pause.objects.values()) == before
    assert not OutboxEntry.objects.exists()
    assert log() == []


def test_a_name_that_no_task_has_is_refused_in_words(client: Client) -> None:
    for verb in PERMISSION:
        answer = client.post(url("taskstate_act", verb), {"task": "nobody"})

        assert "not one of the available choices" in answer.content.decode()
    assert not Pause.objects.exists()
    assert log() == []


def test_a_name_with_every_character_has_a_page(client: Client, declare_task: DeclareTask) -> None:
    name = "a/b?c#d_e <script>&%\u202e"
    declare_task(name)

    assert client.get(task_page(name)).status_code == 200
    assert "<script>&" not in client.get(url("taskstate_changelist")).content.decode()
    assert client.post(url("taskstate_act", "pause"), {"task": name}).status_code == 302
    assert Pause.objects.get().name == name
    assert client.get(url("taskstate_history", quote(name))).status_code == 200
