"""Verbs for many jobs: counted first, a thousand at a time, and one line in the log for each go."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import DELETION
from django.test import Client

from tests.admin.people import log, said, seen, somebody, url
from tests.builders import a_job, some_jobs, sql, states
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Job

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def client() -> Client:
    return somebody("view_job", "retry_job", "cancel_job", "promote_job", "remove_job")


def many(count: int, state: str = "dead", queue: str = "default") -> None:
    """Write many jobs in one statement."""
    sql(
        """
        INSERT INTO x_jobs (id, run_id, name, queue, input, idempotency_key, state, last_error)
        SELECT gen_random_uuid(), gen_random_uuid(), 'tests.many', %s, '{}', 'many-' || n, %s, 'E: no'
          FROM generate_series(1, %s) AS n
        """,
        [queue, state, count],
    )


def confirmed(question: Any, **more: str) -> dict[str, list[str]]:
    """Fill in the form of a question as a browser does."""
    fields: dict[str, list[str]] = {"confirm": ["yes"], **{k: [v] for k, v in more.items()}}
    for name, value in question.context["fields"]:
        fields.setdefault(name, []).append(value)
    return fields


def heading(answer: Any) -> str:
    text = " ".join(seen(answer).text.split())
    return text[text.index("are you sure?") :]


def test_ticked_rows_are_counted_and_then_done(client: Client) -> None:
    dead, ready = some_jobs(2, JobState.DEAD), a_job()
    sent = {"which": "ticked", "ids": [str(row.id) for row in (*dead, ready)]}

    question = client.post(url("job_bulk", "retry"), sent)

    assert "Retry 2 jobs of those ticked" in heading(question)
    assert {job["id"] for job in question.context["sample"]} >= {str(row.id) for row in dead}
    assert states() == {"dead": 2, "ready": 1}

    done = client.post(
        url("job_bulk", "retry"), confirmed(question, reason="it works again"), follow=True
    )

    assert said(done) == ["2 retried, 0 remaining."]
    assert states() == {"ready": 3}
    (line,) = log()
    assert line.object_repr == "2 jobs"
    assert line.change_message.startswith("Retry: retried 2 jobs; remaining: 0; selected: ticked ")
    assert line.change_message.endswith("reason: it works again")


def test_all_that_match_are_done_a_thousand_at_a_time(client: Client) -> None:
    many(1_200)
    many(3, queue="mail")
    listed = client.get(url("job_changelist", state="dead", queue="default"))
    hidden = [i for i in seen(listed).all("input") if i.get("type") == "hidden"]
    form = {str(i["name"]): str(i["value"]) for i in hidden if i.get("value")}

    question = client.post(url("job_bulk", "retry"), {**form, "which": "matching"})
    assert "Retry 1,200 jobs" in heading(question)
    assert states() == {"dead": 1_203}

    answer = client.post(url("job_bulk", "retry"), confirmed(question, reason="fixed"), follow=True)

    assert said(answer) == ["1,000 retried, 200 remaining."]
    assert "Retry 200 jobs" in heading(answer)
    assert answer.context["form"].initial == {"reason": "fixed"}
    answer = client.post(url("job_bulk", "retry"), confirmed(answer), follow=True)

    assert said(answer) == ["200 retried, 0 remaining."]
    assert answer.request["PATH_INFO"] == url("job_changelist")
    assert [row.queue for row in Job.objects.filter(state="dead")] == ["mail"] * 3
    assert len(log()) == 2
    assert "selected: state=dead, queue=default; reason: fixed" in log()[0].change_message


@pytest.mark.slow
def test_what_lies_behind_a_window_is_asked_for_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ultimate_jobs.operate.search.WINDOW", 50)
    many(120, state="done")
    target = url("job_bulk", "remove", which="matching", state="done", name="tests.many")

    answer = client.get(target)
    assert "There may be more" in answer.content.decode()
    for _ in range(10):
        answer = client.post(url("job_bulk", "remove"), confirmed(answer), follow=True)
        if answer.request["PATH_INFO"] == url("job_changelist"):
            break

    assert states() == {}
    assert {line.action_flag for line in log()} == {DELETION}


def test_each_verb_does_what_it_says(client: Client) -> None:
    wanted = {
        "cancel": ("mail", {"cancelled": 2}, "2 cancelled"),
        "remove": ("mail", {}, "2 removed"),
        "promote": ("mail", {"ready": 2}, "2 made due"),
    }
    for verb, (queue, after, words) in wanted.items():
        Job.objects.all().delete()
        for _ in range(2):
            a_job(JobState.DELAYED, queue=queue, due_in=HOUR)

        question = client.get(url("job_bulk", verb, which="matching", queue=queue))
        answer = client.post(url("job_bulk", verb), confirmed(question), follow=True)

        assert said(answer) == [f"{words}, 0 remaining."]
        assert states() == after


def test_a_cancel_keeps_its_reason_on_the_job(client: Client) -> None:
    row = a_job()
    question = client.get(url("job_bulk", "cancel", which="ticked", ids=str(row.id)))

    client.post(url("job_bulk", "cancel"), confirmed(question, reason="not wanted"))

    assert "not wanted" in (Job.objects.get().last_error or "")


def test_every_job_must_be_meant(client: Client) -> None:
    some_jobs(3, JobState.DONE)
    question = client.get(url("job_bulk", "remove", which="matching"))
    assert "I mean every job" in question.content.decode()

    refused = client.post(url("job_bulk", "remove"), confirmed(question), follow=True)

    assert "needs a condition" in said(refused)[0]
    assert states() == {"done": 3}
    done = client.post(url("job_bulk", "remove"), confirmed(question, everything="on"), follow=True)
    assert said(done) == ["3 removed, 0 remaining."]
    assert "selected: every job" in log()[0].change_message


def test_a_search_that_finds_nothing_is_never_everything(client: Client) -> None:
    some_jobs(3, JobState.DEAD)

    for query in ({"q": str(new_id())}, {"q": "nothing*"}, {"q": "nothing"}):
        sent = {"which": "matching", "confirm": "yes", "everything": "on", **query}
        question = client.get(url("job_bulk", "retry", which="matching", **query))
        assert "Retry 0 jobs" in heading(question)
        assert 'name="confirm"' not in question.content.decode()
        assert said(client.post(url("job_bulk", "retry"), sent, follow=True)) == [
            "0 retried, 0 remaining."
        ]

    assert states() == {"dead": 3}
    assert log() == []


@pytest.mark.parametrize("ids", [[], ["no id"], ["", "\x00"]])
def test_nothing_ticked_is_said(client: Client, ids: list[str]) -> None:
    a_job(JobState.DEAD)

    answer = client.post(
        url("job_bulk", "retry"), {"which": "ticked", "ids": ids, "confirm": "yes"}, follow=True
    )

    assert said(answer) == ["Tick the jobs first, or choose all that match the filter."]
    assert states() == {"dead": 1}


def test_a_state_that_a_verb_cannot_act_on_is_said(client: Client) -> None:
    a_job(JobState.RUNNING)

    answer = client.get(url("job_bulk", "remove", which="matching", state="running"), follow=True)

    assert said(answer)[0].startswith("No remove acts on a job that is running.")
    assert answer.request["PATH_INFO"] == url("job_changelist")


@pytest.mark.parametrize("reason", ["x" * 501, "nul\x00"])
def test_a_reason_that_cannot_be_kept_stops_the_verb(client: Client, reason: str) -> None:
    row = a_job(JobState.DEAD)
    sent = {"which": "ticked", "ids": [str(row.id)], "confirm": "yes", "reason": reason}

    assert client.post(url("job_bulk", "retry"), sent, follow=True).status_code == 200
    assert client.post(url("job_act", row.id, "retry"), sent).status_code == 200

    assert states() == {"dead": 1}
    assert log() == []


@pytest.mark.slow
def test_an_error_that_is_rare_is_found_behind_many_others(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ultimate_jobs.operate.search.TEXT_WINDOW", 1_100)
    rare = a_job(JobState.DEAD, last_error="KeyError: rare")
    many(2_500)
    sql("UPDATE x_jobs SET created_at = now() - interval '1 day' WHERE id = %s", [rare.id])
    query = {"which": "matching", "state": "dead", "error": "RARE"}

    answer = client.get(url("job_bulk", "retry", **query))
    assert "Retry 0 jobs" in heading(answer)
    assert "There may be more" in answer.content.decode()
    for _ in range(5):
        answer = client.post(url("job_bulk", "retry"), confirmed(answer), follow=True)
        if answer.request["PATH_INFO"] == url("job_changelist"):
            break

    assert states() == {"dead": 2_500, "ready": 1}


def test_a_made_up_place_is_refused_in_words(client: Client) -> None:
    a_job(JobState.DEAD)

    for query in ({}, {"error": "no"}):
        asked = {"which": "matching", "state": "dead", "after": "x", **query}
        answer = client.get(url("job_bulk", "retry", **asked), follow=True)
        assert "cursor" in said(answer)[0]
