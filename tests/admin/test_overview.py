"""The overview: who sees it, what it says, what it costs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.db.models.functions import Now
from django.test import Client, RequestFactory
from django.urls import reverse

from tests.admin.people import seen, somebody, statements, url
from tests.builders import a_job, a_staged_row, a_worker, some_jobs
from ultimate_jobs import admin
from ultimate_jobs.admin.overview import MOST_TASKS_SHOWN
from ultimate_jobs.core.states import JobState
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.definitions.task import Task
from ultimate_jobs.models import (
    Counter,
    Overview,
    Pause,
    SchedulerLeader,
    TaskState,
)
from ultimate_jobs.operate.counters import counter_slots
from ultimate_jobs.operate.pauses import pause_queue

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return somebody("view_job")


def overview(client: Client, **query: Any) -> Any:
    answer = client.get(url("overview_changelist", **query))
    assert answer.status_code == 200
    return answer


def counted(back: timedelta, **counts: int) -> None:
    Counter.objects.create(bucket=Now() - back, name="shop.checkout", **counts)


def figures(answer: Any) -> dict[str, str]:
    return {figure["label"]: figure["value"] for figure in answer.context["figures"]}


def panels(answer: Any) -> list[str | None]:
    return [section["aria-label"] for section in seen(answer).all("section")]


def test_a_busy_page_costs_five_statements(client: Client) -> None:
    for queue in ("mail", "search", "default"):
        some_jobs(3, queue=queue)
        a_job(JobState.DEAD, queue=queue, last_error="TimeoutError: no answer")
        Pause.objects.create(kind="queue", name=queue)
    a_worker()
    counted(timedelta(minutes=3), done=3)
    Pause.objects.create(kind="task", name="ultimate_jobs.purge")
    SchedulerLeader.objects.create(id=1, holder="s", expires_at=Now() + timedelta(hours=1))

    assert len(statements(lambda: overview(client))) == 5


def test_it_is_a_name_in_the_list_of_the_admin(client: Client) -> None:
    links = [link["href"] for link in seen(client.get(reverse("admin:index"))).all("a")]

    assert url("overview_changelist") in links


@pytest.mark.parametrize("permission", ["view_worker", "view_outboxentry"])
def test_who_may_not_see_jobs_does_not_see_it(permission: str) -> None:
    client = somebody(permission)

    assert client.get(url("overview_changelist")).status_code == 403
    links = [link.get("href") for link in seen(client.get(reverse("admin:index"))).all("a")]
    assert url("overview_changelist") not in links


def test_strangers_are_asked_who_they_are() -> None:
    answer = Client().get(url("overview_changelist"))

    assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (
        302,
        reverse("admin:login"),
    )


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
def test_it_is_only_looked_at(client: Client, method: str) -> None:
    assert getattr(client, method)(url("overview_changelist")).status_code == 405


def test_the_rows_behind_it_have_no_pages_here(client: Client) -> None:
    row = a_job()

    for rest in (f"{row.id}/", f"{row.id}/change/", "add/", f"{row.id}/history/"):
        assert client.get(f"{url('overview_changelist')}{rest}").status_code == 404


def test_every_admin_site_can_have_it(rf: RequestFactory) -> None:
    site = AdminSite("backoffice")

    admin.register(site)

    names = [pattern.name for pattern in site._registry[Overview].get_urls()]
    assert names == ["ultimate_jobs_overview_changelist"]


def test_the_figures_say_what_waits_and_what_is_wrong(client: Client) -> None:
    some_jobs(3, queue="mail", due_in=timedelta(minutes=-3, seconds=-30))
    a_job(queue="mail", due_in=timedelta(hours=1))
    a_job(JobState.RUNNING)
    a_job(JobState.DEAD, last_error="ValueError: no")
    a_worker("alive")
    a_worker("lapsed", alive_for=timedelta(seconds=-1))
    a_staged_row()

    answer = overview(client)

    said = figures(answer)
    assert said.pop("Oldest wait").startswith("3 min ")
    assert said == {
        "Due now": "3",
        "In flight": "1",
        "Outbox": "1",
        "Dead letters": "1",
        "Workers": "1",
    }
    assert "1 without a sign of life" in seen(answer).text


def test_a_pause_says_who_and_why(client: Client) -> None:
    Pause.objects.create(kind="queue", name="mail", paused_by="grace", reason="a new printer")
    Pause.objects.create(kind="task", name="default", paused_by="ada")
    a_job()

    queues = {queue["name"]: queue["paused"] for queue in overview(client).context["queues"]}

    assert queues["default"] is None
    assert (queues["mail"]["paused_by"], queues["mail"]["reason"]) == ("grace", "a new printer")


def test_dead_letters_are_grouped_and_lead_to_their_list(client: Client) -> None:
    for number in range(3):
        a_job(JobState.DEAD, queue="mail", last_error=f"TimeoutError: {number} ms")
    a_job(JobState.DEAD, last_error="ValueError: no")
    a_job(JobState.CANCELLED, last_error="ValueError: no")
    a_job(last_error="ValueError: no")

    errors = overview(client).context["errors"]

    assert [(error["signature"], error["count"]) for error in errors] == [
        ("TimeoutError: <n> ms", 3),
        ("ValueError: no", 1),
    ]
    assert errors[0]["url"] == url("job_changelist", queue="mail", name="tests.ping", state="dead")


def test_only_five_groups_are_shown(client: Client) -> None:
    for kind in range(7):
        for _ in range(kind + 1):
            a_job(JobState.DEAD, last_error=f"{'ABCDEFG'[kind]}Error: no")

    errors = overview(client).context["errors"]

    assert [error["count"] for error in errors] == [7, 6, 5, 4, 3]


@pytest.mark.parametrize(
    ("period", "inside", "outside"),
    [
        ("1h", timedelta(minutes=50), timedelta(hours=2)),
        ("24h", timedelta(hours=20), timedelta(hours=30)),
        ("7d", timedelta(days=6), timedelta(days=9)),
        ("30d", timedelta(days=28), timedelta(days=40)),
    ],
)
def test_the_charts_show_the_period_that_is_asked_for(
    client: Client, period: str, inside: timedelta, outside: timedelta
) -> None:
    counted(inside, done=5, retried=2, dead=1, duration_ms=800)
    counted(outside, done=100, failed=100)

    answer = overview(client, period=period)

    throughput, failures = answer.context["charts"]
    assert [total.count for total in throughput.totals] == [5]
    assert [total.count for total in failures.totals] == [2, 0, 1]
    assert answer.context["mean"] == "100 ms"
    assert [link["name"] for link in answer.context["periods"] if link["here"]] == [period]


@pytest.mark.parametrize("asked", ["", "1y", "24h'", "<script>"])
def test_a_period_that_is_none_is_the_usual_one(client: Client, asked: str) -> None:
    assert overview(client, period=asked).context["period"] == "24h"


def test_shards_and_names_of_one_slot_are_summed() -> None:
    for name, shard in (("a", 0), ("a", 1), ("b", 0)):
        Counter.objects.create(bucket=Now(), name=name, shard=shard, done=2, duration_ms=10)

    answer = counter_slots("24h")

    assert [(slot["done"], slot["duration_ms"]) for slot in answer["slots"]] == [(6, 30)]
    assert answer["now"] is not None


def test_an_empty_shop_says_so(client: Client) -> None:
    text = words(overview(client))

    assert text.count("Nothing in the last 24 hours.") == 2
    assert "No job waits or runs, and no queue is paused." in text
    assert "No job died lately." in text
    assert "No worker shows a sign of life." in text
    assert "Everything that was staged is published." in text
    assert "No scheduler leads" in text


def test_without_tasks_there_is_no_panel(client: Client) -> None:
    hidden = list(tasks)
    for task in hidden:
        tasks.discard(task)
    try:
        answer = overview(client)
    finally:
        for task in hidden:
            tasks.add(task)

    assert 'aria-label="Tasks"' not in answer.content.decode()
    assert "No scheduler leads" not in words(answer)


def test_the_tasks_that_fire_soonest_have_a_panel(
    client: Client, declare_task: Callable[..., Task]
) -> None:
    for number in range(25):
        declare_task(f"tests.yearly-{number:02}", cron=f"{number} 0 1 1 *")
    declare_task("tests.often", cron="* * * * *", tz="Asia/Kathmandu")
    declare_task("tests.paused", cron="* * * * *")
    Pause.objects.create(kind="task", name="tests.paused")
    fired = datetime(2026, 3, 10, 2, 30, tzinfo=UTC)
    TaskState.objects.create(name="tests.often", rule="", watermark=fired, last_fired=fired)

    answer = overview(client)

    shown = answer.context["tasks"]
    assert len(shown) == MOST_TASKS_SHOWN
    (often,) = (task for task in shown if task["name"] == "tests.often")
    assert (often["zone"], often["last"]) == ("Asia/Kathmandu", "10 Mar 08:15")
    assert "tests.paused" not in [task["name"] for task in shown]
    assert "tests.often Asia/Kathmandu 10 Mar 08:15" in words(answer)
    assert f"and {len(tasks) - MOST_TASKS_SHOWN} more" in words(answer)


def test_a_paused_task_says_so(client: Client) -> None:
    Pause.objects.create(kind="task", name="ultimate_jobs.purge")

    assert "ultimate_jobs.purge UTC \N{EN DASH} paused" in words(overview(client))


def test_the_tasks_lead_to_their_page_for_those_who_may_see_it(client: Client) -> None:
    for viewer, leads in ((client, False), (somebody("view_job", "view_taskstate"), True)):
        panel = overview(viewer).content.decode().partition('aria-label="Tasks"')[2]
        assert (url("taskstate_changelist") in panel) is leads


def test_nobody_who_leads_is_a_warning(client: Client) -> None:
    SchedulerLeader.objects.create(id=1, holder="web-1:77", expires_at=Now() - timedelta(seconds=1))

    assert "No scheduler leads" in words(overview(client))

    SchedulerLeader.objects.update(expires_at=Now() + timedelta(hours=1))
    assert "fired by web-1:77" in words(overview(client))
    assert "No scheduler leads" not in words(overview(client))


def words(answer: Any) -> str:
    return " ".join(seen(answer).text.split())


def test_a_strict_policy_refuses_nothing_of_it(client: Client) -> None:
    counted(timedelta(minutes=3), done=3, failed=1)
    a_job(JobState.DEAD, last_error="ValueError: no")

    page = seen(overview(client))

    assert all("style" not in attributes for _, attributes in page.tags)
    assert all(script.get("src") for script in page.all("script"))
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert page.all("style") == []


def test_numbers_of_a_drawing_are_spelled_alike_in_every_language(
    client: Client, settings: Any
) -> None:
    settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR = "de", True
    counted(timedelta(minutes=3), done=12_345, failed=1_234)

    drawn = seen(overview(client)).all("rect")

    assert drawn
    for bar in drawn:
        assert all(float(bar[side] or "") >= 0 for side in ("x", "y", "width", "height"))


def test_a_drawing_says_what_it_shows(client: Client) -> None:
    counted(timedelta(minutes=3), done=3)

    page = seen(overview(client))

    (drawing,) = [image for image in page.all("svg") if image.get("role") == "img"]
    ids = {attributes.get("id") for _, attributes in page.tags}
    assert set((drawing["aria-labelledby"] or "").split()) <= ids


def test_queues_that_nobody_serves_are_named(client: Client) -> None:
    some_jobs(2, queue="<mail>", due_in=timedelta(minutes=-5))
    some_jobs(2, queue="default", due_in=timedelta(minutes=-5))
    a_worker("w-1", queues=["default"])
    a_worker("w-2", queues=["<mail>"], alive_for=timedelta(seconds=-1))

    text = overview(client).content.decode()

    assert "queues that no living worker serves: <bdi>&lt;mail&gt;</bdi>." in text


def test_a_queue_that_is_paused_or_has_fresh_work_only_is_not_named(client: Client) -> None:
    some_jobs(2, queue="paused", due_in=timedelta(minutes=-5))
    pause_queue("paused")
    some_jobs(2, queue="fresh")

    assert "no living worker serves" not in overview(client).content.decode()
