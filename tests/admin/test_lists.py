"""The list: what its filters and its search find, page by page, and the dead letters in groups."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db.models.functions import Now
from django.test import Client

from testproject.shop.models import Order
from tests.admin.people import said, seen, somebody, url
from tests.builders import a_job, a_staged_row, a_worker, some_jobs
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Job, JobStep, Lease
from ultimate_jobs.operate import finding
from ultimate_jobs.operate.inspection import DEFAULT_JOB_PAGE

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    return somebody("view_job", "view_outboxentry", "view_worker", "view_pause", "retry_job")


def listed(client: Client, /, **query: Any) -> list[str]:
    """Ask for the list; answer the ids it shows, in their order."""
    answer = client.get(url("job_changelist", **query))
    assert answer.status_code == 200
    return [job["id"] for job in answer.context["jobs"]]


def ids(*rows: Job) -> list[str]:
    """Answer ids as the list orders rows of one moment."""
    return [str(row.id) for row in sorted(rows, key=lambda row: row.id, reverse=True)]


def test_every_filter_narrows_the_list(client: Client) -> None:
    old = Now() - timedelta(days=3)
    mail = a_job(queue="mail", tenant_id="acme")
    dead = a_job(JobState.DEAD, last_error="TimeoutError: no answer", tenant_id="acme")
    done = a_job(JobState.DONE, name="shop.checkout", created_at=old)

    assert set(listed(client)) == set(ids(mail, dead, done))
    assert listed(client, state="dead") == ids(dead)
    assert listed(client, queue="mail") == ids(mail)
    assert listed(client, name="shop.checkout") == ids(done)
    assert set(listed(client, tenant="acme")) == set(ids(mail, dead))
    assert set(listed(client, age="24h")) == set(ids(mail, dead))
    assert set(listed(client, age="7d")) == set(ids(mail, dead, done))
    assert listed(client, error="NO ANSWER") == ids(dead)
    assert listed(client, tenant="acme", state="ready") == ids(mail)
    assert listed(client, tenant="nobody") == []


def test_the_search_finds_a_job_by_its_id_its_run_and_its_key(client: Client) -> None:
    row = a_job(idempotency_key="order-7")
    with_steps = a_job(JobState.DONE, idempotency_key="order-70", run_id="0" * 31 + "1")
    JobStep.objects.create(
        run_id=with_steps.run_id, job_id=with_steps.id, name="s", position=0, status="completed"
    )
    like_an_id = a_job(idempotency_key=str(new_id()))
    a_job(idempotency_key="other")

    assert listed(client, q=str(row.id)) == ids(row)
    assert listed(client, q=f" {str(row.id).upper()} ") == ids(row)
    assert listed(client, q=str(row.run_id)) == ids(row)
    assert listed(client, q=str(with_steps.run_id)) == ids(with_steps)
    assert listed(client, q=like_an_id.idempotency_key) == ids(like_an_id)
    assert listed(client, q="order-7") == ids(row)
    assert set(listed(client, q="order-7*")) == set(ids(row, with_steps))
    assert listed(client, q="order-7*", state="done") == ids(with_steps)
    assert listed(client, q="rder") == listed(client, q="nothing*") == []
    assert listed(client, q=str(new_id())) == []
    assert listed(client, q="%") == listed(client, q="_rder-7") == []


def test_an_id_that_is_staged_is_one_step_away(client: Client) -> None:
    entry = a_staged_row()

    answer = client.get(url("job_changelist", q=str(entry.id)))

    assert answer.context["jobs"] == []
    assert answer.context["staged_url"] == url("job_change", entry.id)
    assert "waits in the outbox" in client.get(answer.context["staged_url"]).content.decode()


def test_a_search_that_was_cut_short_says_so(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "KEY_WINDOW", 3)
    for n in range(5):
        a_job(idempotency_key=f"order-{n}")

    answer = client.get(url("job_changelist", q="order-*"))

    assert len(answer.context["jobs"]) == 3
    assert "stopped there" in answer.content.decode()
    answer = client.get(url("job_changelist", q="order-4*"))
    assert len(answer.context["jobs"]) == 1
    assert "stopped there" not in answer.content.decode()


def test_a_beginning_is_found_whatever_the_collation_puts_between(client: Client) -> None:
    keys = ["a-b", "a-b-1", "a.b", "ab", "a b", "A-B", "a-bé", "a-b~", "a-b 1"]
    rows = {key: a_job(idempotency_key=key) for key in keys}

    wanted = [rows[key] for key in keys if key.startswith("a-b")]
    assert set(listed(client, q="a-b*")) == set(ids(*wanted))


def test_the_pages_of_the_list_lead_to_each_other_and_skip_nothing(client: Client) -> None:
    rows = some_jobs(2 * DEFAULT_JOB_PAGE + 1, queue="mail")
    Job.objects.update(created_at=rows[0].created_at)
    a_job(queue="default")

    pages, target, back = [], url("job_changelist", queue="mail"), ""
    while target:
        answer = client.get(target)
        pages.append([job["id"] for job in answer.context["jobs"]])
        back, target = answer.context["newer"], answer.context["older"]

    assert [job for page in pages for job in page] == ids(*rows)
    assert [len(page) for page in pages] == [DEFAULT_JOB_PAGE, DEFAULT_JOB_PAGE, 1]
    assert [job["id"] for job in client.get(back).context["jobs"]] == pages[1]


def test_a_place_that_is_none_leads_to_the_first_page(client: Client) -> None:
    row = a_job(queue="mail")

    for place in ("no place", str(new_id()), f"{new_id()}.12.abcd", "\x00"):
        answer = client.get(url("job_changelist", queue="mail", after=place), follow=True)
        assert [job["id"] for job in answer.context["jobs"]] == ids(row)
        assert len(said(answer)) == 1


@pytest.mark.parametrize(
    "query",
    [
        {"state": "asleep"},
        {"related": "7"},
        {"related": "x:7"},
        {"related": f"{'9' * 30}:7"},
        {"q": "x" * 501},
        {"q": "nul\x00"},
        {"age": "1y"},
    ],
)
def test_a_filter_that_cannot_be_meant_shows_no_job(client: Client, query: dict[str, str]) -> None:
    a_job()

    answer = client.get(url("job_changelist", **query))

    assert answer.status_code == 200
    assert answer.context["jobs"] == []
    assert answer.context["form"].errors
    assert client.get(url("job_bulk", "retry", which="matching", **query)).status_code == 302


@pytest.mark.parametrize(
    "query", ["input__card__startswith=4", "last_error__icontains=x", "o=1", "all=", "p=3", "e=1"]
)
def test_the_address_asks_for_no_column(client: Client, query: str) -> None:
    row = a_job(input={"card": "5555"})

    answer = client.get(f"{url('job_changelist')}?{query}")

    assert [job["id"] for job in answer.context["jobs"]] == ids(row)


def test_dead_letters_are_grouped_and_retried_together(client: Client) -> None:
    for n in range(3):
        a_job(JobState.DEAD, last_error=f"ValueError: order {n} has no price", attempt=3)
    other = a_job(JobState.DEAD, last_error="KeyError: 'x'", queue="mail")

    page = client.get(url("job_dead"))

    groups = page.context["groups"]
    assert [(group["count"], group["queue"]) for group in groups] == [(3, "default"), (1, "mail")]
    ((retry,), _) = (group["verbs"] for group in groups)
    question = client.get(retry["url"])
    assert "Retry 3 jobs" in " ".join(seen(question).text.split())
    assert Job.objects.filter(state="dead").count() == 4

    form = dict(question.context["fields"])
    client.post(question.context["action"], {**form, "confirm": "yes"})

    assert [row.id for row in Job.objects.filter(state="dead")] == [other.id]


def test_dead_letters_without_an_error_are_a_group_too(client: Client) -> None:
    a_job(JobState.DEAD)

    ((retry,),) = (g["verbs"] for g in client.get(url("job_dead")).context["groups"])

    assert "Retry 1 job" in " ".join(seen(client.get(retry["url"])).text.split())


def test_workers_outbox_and_queues_are_shown(client: Client) -> None:
    a_worker("host-1:77")
    a_worker("host-2:78", alive_for=-timedelta(seconds=1))
    a_job(queue="mail")
    entry = a_staged_row()

    workers = seen(client.get(url("worker_changelist"))).text
    assert "host-1:77" in workers
    assert "lapsed" in workers
    outbox = client.get(url("outboxentry_changelist"))
    assert "1 waiting, 0 refused" in seen(outbox).text
    assert url("job_change", entry.id) in outbox.content.decode()
    queues = client.get(url("pause_changelist"))
    assert {queue["queue"] for queue in queues.context["queues"]} >= {"default", "mail"}
    assert url("job_changelist", queue="mail") in queues.content.decode()
    for name, pk in (("worker", "host-1:77"), ("pause", 7)):
        answer = client.get(url(f"{name}_change", pk))
        assert answer["Location"] == url(f"{name}_changelist")


def test_a_worker_says_where_it_is_and_what_it_runs(client: Client) -> None:
    running = [str(new_id()) for _ in range(12)]
    a_worker(
        "w", host="web-1", pid=4_711, state="draining", queues=["mail", "default"],
        concurrency=16, running=running,
    )  # fmt: skip

    answer = client.get(url("worker_changelist"))

    shown = " ".join(seen(answer).text.split())
    assert "w web-1, pid 4711 " in shown
    assert "draining mail, default 12 of 16" in shown
    assert "and 2 more" in shown
    links = {a.get("href") for a in seen(answer).all("a")}
    pages = [url("job_change", job) for job in running]
    assert links >= set(pages[:10])
    assert not links & set(pages[10:])
    unlinked = somebody("view_worker").get(url("worker_changelist"))
    assert not {a.get("href") for a in seen(unlinked).all("a")} & set(pages)
    assert running[0] in unlinked.content.decode()


def test_a_capped_job_says_whether_it_has_a_slot(client: Client) -> None:
    stands_by = a_job(lease_key="k", blocked=True)
    runs = a_job(JobState.RUNNING, lease_key="k")
    lapsed = a_job(JobState.RUNNING, lease_key="k")
    for slot, row, expires in ((1, lapsed, -1), (2, runs, 60)):
        Lease.objects.create(
            lease_key="k", slot=slot, job_id=row.id, run_id=row.run_id, claim=row.claim,
            worker="w", expires_at=Now() + timedelta(seconds=expires),
        )  # fmt: skip

    def slots(row: Job) -> list[Any]:
        answer = client.get(url("job_change", row.id))
        assert answer.context["stands_by"] is (row == stands_by)
        return [value for title, value in answer.context["facts"] if title == "Slot"]

    assert "stands by" in slots(stands_by)[0]
    assert slots(runs) == [2]
    assert slots(lapsed) == slots(a_job(lease_key="k")) == slots(a_job()) == []
    assert slots(a_job(JobState.DONE, lease_key="k", blocked=True)) == []
    assert "stands by for a slot" in seen(client.get(url("job_change", stands_by.id))).text


def test_the_admin_of_an_object_shows_the_jobs_about_it() -> None:
    order = Order.objects.create(reference="r-1", amount=1, sku="s")
    kind = ContentType.objects.get_for_model(Order)
    about: dict[str, Any] = {"related_type": kind, "related_id": str(order.pk)}
    mine = [a_job(JobState.DEAD, last_error="ValueError: <b>", **about), a_job(**about)]
    a_job(related_type=kind, related_id="999")
    client = somebody(superuser=True)
    page = f"/admin/shop/order/{order.pk}/change/"

    shown = client.get(page).content.decode()

    links = {url("job_change", row.id) for row in mine}
    assert links <= {a.get("href") for a in seen(client.get(page)).all("a")}
    assert "ultimate_jobs/admin.css" in shown
    assert "ValueError: &lt;b&gt;" in shown
    assert set(listed(client, related=f"{kind.pk}:{order.pk}")) == set(ids(*mine))
    assert url("job_changelist", related=f"{kind.pk}:{order.pk}") in shown.replace("&amp;", "&")
    job = client.get(url("job_change", mine[0].id))
    assert page in {a.get("href") for a in seen(job).all("a")}


def test_jobs_of_an_object_are_for_those_who_may_see_jobs() -> None:
    order = Order.objects.create(reference="r-1", amount=1, sku="s")
    row = a_job(related_type=ContentType.objects.get_for_model(Order), related_id=str(order.pk))
    client = somebody()
    grant(client, "view_order")
    page = f"/admin/shop/order/{order.pk}/change/"

    answer = client.get(page)

    assert answer.status_code == 200
    assert str(row.id) not in answer.content.decode()
    assert "Jobs for this object" not in answer.content.decode()
    grant(client, "view_job")
    shown = client.get(page).content.decode()
    assert shown.count("Jobs for this object") == 1
    assert str(row.id) in shown


def test_an_object_without_jobs_and_a_new_one_say_so_or_nothing() -> None:
    order = Order.objects.create(reference="r-1", amount=1, sku="s")
    client = somebody(superuser=True)

    assert "None." in client.get(f"/admin/shop/order/{order.pk}/change/").content.decode()
    added = client.get("/admin/shop/order/add/").content.decode()
    assert "Jobs for this object" not in added


def test_an_object_that_a_user_may_not_see_is_named_without_a_link() -> None:
    order = Order.objects.create(reference="r-1", amount=1, sku="s")
    row = a_job(related_type=ContentType.objects.get_for_model(Order), related_id=str(order.pk))

    answer = somebody("view_job").get(url("job_change", row.id))

    assert f"shop.order {order.pk}" in seen(answer).text
    assert f"/admin/shop/order/{order.pk}" not in answer.content.decode()


def grant(client: Client, codename: str) -> None:
    from django.contrib.auth import get_user_model  # noqa: PLC0415
    from django.contrib.auth.models import Permission  # noqa: PLC0415

    user = get_user_model().objects.get(pk=client.session["_auth_user_id"])
    user.user_permissions.add(Permission.objects.get(codename=codename))


def test_the_page_of_queues_lists_the_jobs_that_no_worker_can_take(client: Client) -> None:
    assert client.get(url("pause_changelist")).context["stranded"] == []
    some_jobs(2, name="shop.<new>", due_in=timedelta(minutes=-5))
    a_worker(queues=["default"], jobs=["shop.old"])

    answer = client.get(url("pause_changelist"))

    (group,) = answer.context["stranded"]
    assert (group["text"], group["why"]) == ("2", "no worker knows it")
    assert "shop.&lt;new&gt;" in answer.content.decode()
    assert "shop.%3Cnew%3E" in group["url"]
