"""Who may see and do what: hidden and refused without the permission, never done by looking."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.db import models
from django.test import Client

from tests.admin.people import VERBS, VIEWS, log, said, seen, somebody, url
from tests.builders import a_job, a_staged_row, a_worker, reloaded, states
from ultimate_jobs.admin.actions import VERBS as ALL_VERBS
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Job, JobStep, OutboxEntry, Pause

pytestmark = pytest.mark.django_db

PERMISSION = {
    "retry": "retry_job",
    "cancel": "cancel_job",
    "promote": "promote_job",
    "remove": "remove_job",
    "resolve-step": "resolve_step",
}
PAGES = {
    "overview_changelist": "view_job",
    "job_changelist": "view_job",
    "job_dead": "view_job",
    "pause_changelist": "view_pause",
    "taskstate_changelist": "view_taskstate",
    "worker_changelist": "view_worker",
    "outboxentry_changelist": "view_outboxentry",
}
FITTING = {
    "retry": JobState.DEAD,
    "cancel": JobState.READY,
    "promote": JobState.DELAYED,
    "remove": JobState.DONE,
    "resolve-step": JobState.FAILED,
}


def a_fitting_job(verb: str) -> Job:
    """Write a job that the verb can act on."""
    row = a_job(FITTING[verb], due_in=timedelta(hours=1))
    JobStep.objects.create(
        run_id=row.run_id, job_id=row.id, name="pay", position=0, status="started"
    )
    return row


def given(verb: str) -> dict[str, str]:
    """Answer what the form of the verb asks."""
    return {"step": "pay", "ran": "yes", "output": "7"} if verb == "resolve-step" else {}


def everything() -> list[object]:
    """Read all that a verb can change."""
    tables: list[type[models.Model]] = [Job, JobStep, Pause, OutboxEntry]
    return [list(table._default_manager.order_by("pk").values()) for table in tables]


def test_every_verb_has_a_permission_of_its_own() -> None:
    assert {name: verb.permission for name, verb in ALL_VERBS.items()} == PERMISSION
    ours = Permission.objects.filter(content_type__app_label="ultimate_jobs")
    codenames = set(ours.values_list("codename", flat=True))

    assert set(PERMISSION.values()) <= codenames
    assert {
        "pause_queue",
        "resume_queue",
        "fire_task",
        "pause_task",
        "resume_task",
        "view_payload",
    } <= codenames
    assert not [name for name in codenames if name.startswith(("add_", "change_", "delete_"))]


@pytest.mark.parametrize(("page", "permission"), PAGES.items())
def test_a_page_is_for_those_who_may_see_it(page: str, permission: str) -> None:
    others = set(VIEWS + VERBS) - {permission}

    assert somebody(permission).get(url(page)).status_code == 200
    assert somebody(*others).get(url(page)).status_code == 403
    assert somebody(superuser=True).get(url(page)).status_code == 200
    answer = Client().get(url(page))
    assert answer.status_code == 302
    assert "/login/" in answer["Location"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_to_look_at_takes_no_post(page: str) -> None:
    assert somebody(superuser=True).post(url(page)).status_code == 405


def test_the_page_of_a_job_is_for_those_who_may_see_jobs() -> None:
    row = a_job()

    assert somebody("view_job").get(url("job_change", row.id)).status_code == 200
    assert somebody(*VERBS).get(url("job_change", row.id)).status_code == 403
    assert somebody(superuser=True).post(url("job_change", row.id)).status_code == 405
    assert Client().get(url("job_change", row.id)).status_code == 302


@pytest.mark.parametrize("page", ["add", "delete"])
@pytest.mark.parametrize("model", ["job", "outboxentry", "worker", "pause", "taskstate"])
def test_nobody_adds_or_deletes_a_row_by_hand(model: str, page: str) -> None:
    pk = {
        "job": a_job().pk,
        "worker": a_worker("w").pk,
        "taskstate": "ultimate_jobs.purge",
        "pause": Pause.objects.create(kind="queue", name="mail").pk,
        "outboxentry": an_entry().pk,
    }[model]
    client = somebody(superuser=True)
    target = url(f"{model}_{page}", *([] if page == "add" else [pk]))

    assert client.get(target).status_code == 403
    assert client.post(target, {"post": "yes", "name": "x"}).status_code == 403


def an_entry() -> OutboxEntry:
    return a_staged_row(name="x", input={"card": "4111-1111"})


def test_a_staged_row_has_no_page_but_that_of_its_job() -> None:
    entry = an_entry()
    client = somebody(superuser=True)

    answer = client.get(url("outboxentry_change", entry.pk))

    assert answer["Location"] == url("job_change", entry.pk)
    assert "4111-1111" not in client.get(answer["Location"]).content.decode()


@pytest.mark.parametrize("verb", PERMISSION)
def test_a_verb_is_hidden_and_refused_without_its_permission(verb: str) -> None:
    row = a_fitting_job(verb)
    others = set(VIEWS + VERBS) - {PERMISSION[verb]}
    before = everything()

    for client in (somebody("view_job"), somebody(*others), somebody(PERMISSION[verb])):
        assert client.get(url("job_act", row.id, verb)).status_code == 403
        assert client.post(url("job_act", row.id, verb), given(verb)).status_code == 403
        if ALL_VERBS[verb].many:
            sent = {"which": "ticked", "ids": [str(row.id)], "confirm": "yes"}
            assert client.get(url("job_bulk", verb, **sent)).status_code == 403
            assert client.post(url("job_bulk", verb), sent).status_code == 403
    assert everything() == before
    assert log() == []

    shown = somebody(*others).get(url("job_change", row.id)).content.decode()
    assert url("job_act", row.id, verb) not in shown
    shown = somebody(*others).get(url("job_changelist")).content.decode()
    assert url("job_change", row.id) in shown
    if ALL_VERBS[verb].many:
        assert url("job_bulk", verb) not in shown


@pytest.mark.parametrize("verb", PERMISSION)
def test_a_verb_is_offered_asked_for_and_done_with_its_permission(verb: str) -> None:
    row = a_fitting_job(verb)
    client = somebody("view_job", PERMISSION[verb])
    target = url("job_act", row.id, verb)
    before = everything()

    assert target in client.get(url("job_change", row.id)).content.decode()
    for look in (client.get, client.head):
        assert look(target, given(verb)).status_code == 200
        assert everything() == before

    answer = client.post(target, {**given(verb), "reason": "asked by Ann"}, follow=True)

    assert answer.status_code == 200
    assert everything() != before
    (line,) = log()
    assert line.user.get_username() == answer.context["user"].get_username()
    assert (line.object_id, str(line.content_type)) == (str(row.id), "Jobs | job")
    assert "asked by Ann" in line.change_message
    assert str(ALL_VERBS[verb].label) in line.change_message


@pytest.mark.parametrize("verb", PERMISSION)
def test_a_post_without_a_token_is_refused(verb: str) -> None:
    row = a_fitting_job(verb)
    client = somebody(superuser=True, csrf=True)
    before = everything()

    assert client.post(url("job_act", row.id, verb), given(verb)).status_code == 403
    if ALL_VERBS[verb].many:
        sent = {"which": "ticked", "ids": [str(row.id)], "confirm": "yes"}
        assert client.post(url("job_bulk", verb), sent).status_code == 403
    for queue_verb in ("pause", "resume"):
        target = url("pause_act", queue_verb)
        assert client.post(target, {"queue": "default"}).status_code == 403
    for task_verb in ("fire", "pause", "resume"):
        target = url("taskstate_act", task_verb)
        assert client.post(target, {"task": "ultimate_jobs.purge"}).status_code == 403
    assert everything() == before

    page = seen(client.get(url("job_act", row.id, verb)))
    (token,) = {i["value"] for i in page.all("input") if i.get("name") == "csrfmiddlewaretoken"}
    client.post(url("job_act", row.id, verb), {**given(verb), "csrfmiddlewaretoken": token})
    assert everything() != before


@pytest.mark.parametrize("verb", [name for name, verb in ALL_VERBS.items() if verb.many])
def test_looking_at_a_bulk_verb_changes_nothing(verb: str) -> None:
    row = a_fitting_job(verb)
    client = somebody(superuser=True)
    before = everything()
    sent = {"which": "ticked", "ids": [str(row.id)]}

    for answer in (
        client.get(url("job_bulk", verb, **sent, confirm="yes")),
        client.head(url("job_bulk", verb, **sent, confirm="yes")),
        client.get(url("job_bulk", verb, which="matching", confirm="yes", everything="on")),
        client.post(url("job_bulk", verb), sent),
    ):
        assert answer.status_code == 200
    assert everything() == before
    assert log() == []


def test_somebody_who_only_looks_finds_nothing_to_press() -> None:
    for state in JobState:
        a_job(state)
    client = somebody(*VIEWS)
    pages = [*(url(page) for page in PAGES), url("taskstate_change", "ultimate_jobs.purge")]

    for page in [*pages, *(url("job_change", row.id) for row in Job.objects.all())]:
        forms = [form for form in seen(client.get(page)).all("form") if form["method"] == "post"]
        text = client.get(page).content.decode()
        assert not [form for form in forms if form.get("id") not in {"logout-form", "uj-rows"}]
        assert "/act/" not in text
        assert "/bulk/" not in text


def test_a_queue_is_paused_and_resumed_by_those_who_may() -> None:
    for verb, other in (("pause", "resume"), ("resume", "pause")):
        target = url("pause_act", verb)
        for client in (somebody("view_pause"), somebody("view_pause", f"{other}_queue")):
            assert client.get(target).status_code == 403
            assert client.post(target, {"queue": "mail"}).status_code == 403
    may = somebody("view_pause", "pause_queue", "resume_queue")
    assert may.get(url("pause_act", "pause", queue="mail")).status_code == 200
    assert not Pause.objects.exists()

    done = may.post(url("pause_act", "pause"), {"queue": "mail", "reason": "a move"}, follow=True)

    assert said(done) == ["The queue mail was paused."]
    pause = Pause.objects.get()
    assert (pause.name, pause.reason) == ("mail", "a move")
    assert pause.paused_by == done.context["user"].get_username()
    assert "a move" in done.content.decode()
    assert url("pause_act", "resume", queue="mail") in done.content.decode()
    again = may.post(url("pause_act", "pause"), {"queue": "mail"}, follow=True)
    assert said(again) == ["The queue mail was paused before."]

    assert may.get(url("pause_act", "resume", queue="mail")).status_code == 200
    assert Pause.objects.exists()
    done = may.post(url("pause_act", "resume"), {"queue": "mail", "reason": "moved"}, follow=True)

    assert said(done) == ["The queue mail was resumed."]
    assert not Pause.objects.exists()
    assert [line.change_message for line in log()] == [
        "Pause: paused the queue mail; reason: a move",
        "Resume: resumed the queue mail; reason: moved",
    ]


def test_a_name_that_no_queue_can_have_is_refused_in_words() -> None:
    answer = somebody(superuser=True).post(
        url("pause_act", "pause"), {"queue": "x" * 201}, follow=True
    )

    assert not Pause.objects.exists()
    assert "at most 200 characters" in answer.content.decode()


def test_nobody_acts_without_signing_in() -> None:
    row = a_job(JobState.DEAD)
    before = everything()

    for target in (
        url("job_act", row.id, "retry"),
        url("job_bulk", "retry"),
        url("pause_act", "pause"),
        url("taskstate_act", "fire"),
    ):
        sent = {
            "which": "ticked",
            "ids": [str(row.id)],
            "confirm": "yes",
            "queue": "mail",
            "task": "ultimate_jobs.purge",
        }
        answer = Client().post(target, sent)
        assert answer.status_code == 302
        assert "/login/" in answer["Location"]
    assert everything() == before


def test_unknown_verbs_and_jobs_are_met_with_words() -> None:
    client = somebody(superuser=True)
    row = a_job()

    assert client.get(url("job_act", row.id, "explode")).status_code == 404
    assert client.get(url("job_bulk", "explode")).status_code == 404
    assert client.get(url("job_bulk", "resolve-step")).status_code == 404
    assert client.get(url("pause_act", "explode")).status_code == 404
    assert client.get(url("taskstate_act", "explode")).status_code == 404
    for target in (url("job_act", new_id(), "retry"), url("job_change", "no id")):
        answer = client.get(target, follow=True)
        assert len(said(answer)) == 1
        assert answer.request["PATH_INFO"] == url("job_changelist")


def test_a_verb_that_comes_too_late_says_so_and_logs_nothing() -> None:
    row = a_job(JobState.DONE)
    client = somebody("view_job", "cancel_job")

    assert (
        url("job_act", row.id, "cancel")
        not in client.get(url("job_change", row.id)).content.decode()
    )
    answer = client.post(url("job_act", row.id, "cancel"), follow=True)

    assert said(answer)[0].startswith("The job has ended")
    assert reloaded(row).state == JobState.DONE
    assert log() == []
    assert states() == {"done": 1}
