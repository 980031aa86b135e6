"""``manage.py jobs list``: a page of jobs, for people and for programs."""

from __future__ import annotations

import json

import pytest
from django.db import transaction

from tests.builders import Declarations, Ping, a_job, some_jobs
from tests.commands.manage import manage
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Job as JobRow

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = {
    "id",
    "name",
    "queue",
    "state",
    "standing_by",
    "priority",
    "attempt",
    "max_attempts",
    "run_at",
    "idempotency_key",
    "tenant_id",
    "last_error",
    "created_at",
    "updated_at",
}


def ids(*arguments: str) -> list[str]:
    answer = manage("jobs", "list", "--json", *arguments)
    assert answer.code == 0, answer.err
    return [job["id"] for job in answer.document["jobs"]]


def newest_first() -> list[str]:
    rows = JobRow.objects.order_by("-created_at", "-id").values_list("id", flat=True)
    return [str(row) for row in rows]


def test_a_listed_job_has_these_keys() -> None:
    row = a_job(JobState.DEAD, last_error="boom", attempt=3, tenant_id="acme")

    answer = manage("jobs", "list", "--json")

    assert (answer.code, answer.err) == (0, "")
    (job,) = answer.document["jobs"]
    assert set(job) == KEYS
    assert job["id"] == str(row.id)
    assert (job["state"], job["attempt"], job["last_error"]) == ("dead", 3, "boom")
    assert job["created_at"].endswith("Z")


def test_the_counts_say_what_waits_and_runs(declare: Declarations) -> None:
    ping = declare()
    some_jobs(2)
    a_job(JobState.RUNNING)
    a_job(JobState.DONE)
    with transaction.atomic():
        ping.enqueue_many([Ping("a"), Ping("b"), Ping("c")])

    answer = manage("jobs", "list", "--json", "--limit", "1")

    assert answer.document["counts"] == {
        "staged": 3,
        "ready": 2,
        "delayed": 0,
        "standing_by": 0,
        "running": 1,
        "suspended": 0,
    }
    assert len(answer.document["jobs"]) == 1


def test_an_empty_queue_is_an_answer() -> None:
    assert manage("jobs", "list", "--json").document["jobs"] == []
    assert "no jobs" in manage("jobs", "list").out


@pytest.mark.parametrize(
    ("option", "value", "columns"),
    [
        ("--queue", "mail", {"queue": "mail"}),
        ("--name", "tests.other", {"name": "tests.other"}),
        ("--state", "dead", {"state": JobState.DEAD}),
        ("--tenant", "acme", {"tenant_id": "acme"}),
    ],
)
def test_a_filter_keeps_what_it_names(option: str, value: str, columns: dict[str, str]) -> None:
    a_job()
    wanted = JobRow.objects.get(id=a_job().id)
    JobRow.objects.filter(id=wanted.id).update(**columns)

    assert ids(option, value) == [str(wanted.id)]


def test_pages_lead_forwards_and_backwards_over_rows_of_one_instant() -> None:
    some_jobs(7)
    same = JobRow.objects.earliest("created_at").created_at
    JobRow.objects.update(created_at=same)
    everything = newest_first()

    first = ids("--limit", "3")
    second = ids("--limit", "3", "--after", first[-1])
    third = ids("--limit", "3", "--after", second[-1])

    assert first + second + third == everything
    assert ids("--limit", "3", "--after", third[-1]) == []
    assert ids("--limit", "3", "--before", third[0]) == second
    assert ids("--limit", "3", "--before", second[0]) == first
    assert ids("--limit", "3", "--before", first[0]) == []


def test_a_page_holds_its_place_while_newer_jobs_arrive() -> None:
    some_jobs(4)
    first = ids("--limit", "2")
    some_jobs(3)

    assert ids("--limit", "2", "--after", first[-1]) == newest_first()[5:]


def test_a_page_of_filtered_rows_may_start_at_a_row_of_another_filter() -> None:
    some_jobs(2)
    between = a_job(JobState.DONE)
    some_jobs(2)

    assert len(ids("--state", "ready", "--after", str(between.id))) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--limit", "201"),
        ("--after", "00000000-0000-7000-8000-000000000000"),
        ("--before", "no id at all"),
    ],
    ids=["too many rows", "an unknown cursor", "a cursor that is none"],
)
def test_a_page_that_cannot_be_is_refused_with_its_code(arguments: tuple[str, ...]) -> None:
    plain = manage("jobs", "list", *arguments)
    document = manage("jobs", "list", "--json", *arguments)

    assert (plain.code, plain.out) == (1, "")
    assert "X_JOB_PAGE_INVALID" in plain.err
    assert document.code == 1
    assert set(document.document) == {"error"}
    assert set(document.document["error"]) == {"code", "cause", "fix"}
    assert document.document["error"]["code"] == "X_JOB_PAGE_INVALID"


def test_the_largest_page_is_allowed() -> None:
    a_job()

    assert len(ids("--limit", "200")) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "--limit", "0"),
        ("list", "--limit", "many"),
        ("list", "--state", "gone"),
        ("list", "--after", "a", "--before", "b"),
        ("list", "--colour"),
        ("explode",),
        (),
        ("show",),
    ],
)
def test_a_wrong_option_is_said_so_and_exits_2(arguments: tuple[str, ...]) -> None:
    answer = manage("jobs", *arguments)

    assert answer.code == 2
    assert answer.out == ""
    assert "error:" in answer.err


def test_people_see_a_table_with_counts_and_the_first_line_of_the_error() -> None:
    row = a_job(JobState.DEAD, last_error="ValueError: boom\n  File x", attempt=2)

    out = manage("jobs", "list").out

    assert "ready 0" in out
    for shown in (str(row.id), row.name, "dead", "2/3", "ValueError: boom"):
        assert shown in out
    assert "File x" not in out


@pytest.mark.parametrize("evil", ["\x1b[2J", "\x9b2J", "\x07", "\u202e", "\r"])
def test_stored_text_cannot_steer_the_terminal(evil: str) -> None:
    row = a_job(
        JobState.DEAD,
        name=f"name{evil}",
        queue=f"queue{evil}",
        idempotency_key=f"key{evil}",
        last_error=f"error{evil}",
        tenant_id=f"tenant{evil}",
        input={f"key{evil}": f"text{evil}"},
        progress={"note": f"note{evil}"},
    )

    for arguments in (("list",), ("show", str(row.id))):
        for json_option in ((), ("--json",)):
            answer = manage("jobs", *arguments, *json_option)
            assert answer.code == 0
            assert evil not in answer.out, (arguments, json_option)


def test_stored_text_is_not_read_as_markup() -> None:
    a_job(JobState.DEAD, last_error="[bold]not bold[/bold] [/] [red")

    assert "[bold]not bold[/bold] [/] [red" in manage("jobs", "list").out


def test_text_of_any_language_is_shown_as_it_is() -> None:
    a_job(idempotency_key="Zoë 注文 😀")

    assert "Zoë 注文 😀" in manage("jobs", "list").out
    assert json.loads(manage("jobs", "list", "--json").out)["jobs"][0]["idempotency_key"] == (
        "Zoë 注文 😀"
    )
