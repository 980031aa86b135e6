"""What is stored is shown as text, wherever it is shown; secrets are not shown at all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models.functions import Now
from django.test import Client

from testproject.shop.models import Order
from tests.admin.people import VERBS, VIEWS, said, seen, somebody, url
from tests.builders import Declarations, a_job, a_staged_row, a_worker
from ultimate_jobs import Run
from ultimate_jobs.admin.text import first_line, harmless, pretty, shortened, visible
from ultimate_jobs.core.masking import SENSITIVE
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Job, JobStep, OutboxEntry, Pause, SchedulerLeader, TaskState

pytestmark = pytest.mark.django_db

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 }}{% now %}</textarea>"
UNSEEN = "abc\u202efdp.exe\u2066\u200f\x07\x1b[31m\ufeff"
CARD = "4111-1111-1111-1111"


@dataclass(frozen=True, slots=True)
class Payment:
    key: str
    card: Annotated[str, SENSITIVE]
    note: str = ""


def a_hostile_job(declare: Declarations) -> Job:
    """Write a job of which every text is hostile."""
    text = HOSTILE + UNSEEN.replace("\x07", "")
    order = Order.objects.create(reference="r", amount=1)
    declare(name="tests.hostile", queue="default")
    row = a_job(
        JobState.DEAD,
        name="tests.hostile",
        queue=text,
        tenant_id=text,
        idempotency_key=text,
        last_error=f"{text}: {text}\n{text}",
        input={"key": text, text: text},
        result={"said": text},
        progress={"done": 1, "total": 2, "note": text},
        traceparent=f"00-{text}-{text}-01",
        enqueued_by=text,
        related_type=ContentType.objects.get_for_model(Order),
        related_id=str(order.pk),
    )
    for number, status in enumerate(("completed", "started", "waiting", "failed")):
        JobStep.objects.create(
            run_id=row.run_id,
            job_id=row.id,
            name=f"{text}{number}",
            position=number,
            status=status,
            output=text,
            error=text,
            event=text,
        )
    a_worker(text, host=text, state=text, queues=[text], running=[text])
    for kind in ("queue", "task"):
        Pause.objects.create(kind=kind, name=text, paused_by=text, reason=text)
    TaskState.objects.create(name=text, rule=text, watermark=row.created_at)
    SchedulerLeader.objects.create(id=1, holder=text, expires_at=Now() + timedelta(hours=1))
    a_staged_row(
        name=text,
        queue=text,
        tenant_id=text,
        idempotency_key=text,
        last_error=text,
        input={text: text},
    )
    return row


def pages_of(row: Job) -> list[str]:
    """Answer every page that shows something of a job, and of what stands beside it."""
    query = {"q": row.idempotency_key, "queue": row.queue[:200], "tenant": row.tenant_id or ""}
    return [
        "/admin/",
        url("overview_changelist"),
        url("job_changelist"),
        url("job_changelist", **query),
        url("job_changelist", state=HOSTILE, related=HOSTILE, age=HOSTILE),
        url("job_change", row.id),
        url("job_history", row.id),
        url("job_dead"),
        *(url("job_act", row.id, verb) for verb in ("retry", "cancel", "remove", "resolve-step")),
        url("job_bulk", "retry", which="matching", **query),
        url("job_bulk", "retry", which="matching", reason=HOSTILE, error="script"),
        url("pause_changelist"),
        url("pause_act", "resume", queue=row.queue),
        url("taskstate_changelist"),
        url("worker_changelist"),
        url("outboxentry_changelist"),
        *(url("job_change", entry.id) for entry in OutboxEntry.objects.all()),
        f"/admin/shop/order/{row.related_id}/change/",
    ]


def assert_is_text(client: Client, page: str) -> None:
    """Assert that nothing of what is stored became markup, and nothing of it is invisible."""
    answer = client.get(page, follow=True)
    assert answer.status_code == 200, page
    markup = seen(answer)
    for tag, attributes in markup.tags:
        assert tag != "img", page
        assert tag != "script" or set(attributes) - {"onerror"} >= {"src"}, (page, attributes)
        assert not [name for name in attributes if name.startswith("on")], (page, attributes)
        assert "style" not in attributes, (page, attributes)
    assert not markup.all("style"), page
    links = [a.get("href") or "" for a in markup.all("a")]
    assert all(link.startswith(("/", "?", "#")) for link in links), (page, links)


def test_a_hostile_text_is_text_on_every_page(declare: Declarations) -> None:
    row = a_hostile_job(declare)
    client = somebody(superuser=True)

    for page in pages_of(row):
        assert_is_text(client, page)

    shown = seen(client.get(url("job_change", row.id))).text
    assert "<script>alert(1)</script>" in shown
    assert "{{ 7 }}" in shown
    client.post(url("job_act", row.id, "retry"), {"reason": UNSEEN.replace("\x07", "")})
    for page in (
        "/admin/",
        url("job_history", row.id),
        url("job_change", row.id),
        url("job_changelist"),
        url("job_dead"),
    ):
        text = client.get(page).content.decode()
        assert "\u202e" not in text
        assert "\u2066" not in text
        assert "\x1b" not in text
    assert r"\u202e" in shown


def test_hostile_texts_are_acted_on_and_logged_as_text(declare: Declarations) -> None:
    row = a_hostile_job(declare)
    client = somebody(superuser=True)
    step = JobStep.objects.get(run_id=row.run_id, status="started").name

    done = client.post(
        url("job_act", row.id, "resolve-step"),
        {"step": step, "ran": "no", "reason": HOSTILE},
        follow=True,
    )
    assert len(said(done)) == 1
    retried = client.post(
        url("job_act", row.id, "retry"), {"reason": HOSTILE, "from_step": "no such"}, follow=True
    )
    assert "Select a valid choice" in retried.content.decode()
    client.post(url("job_act", row.id, "retry"), {"reason": HOSTILE})
    client.post(url("pause_act", "resume"), {"queue": row.queue[:200], "reason": HOSTILE})

    assert LogEntry.objects.count() == 3
    for page in pages_of(row):
        assert_is_text(client, page)


def test_a_long_text_is_cut_and_says_so(declare: Declarations) -> None:
    declare(name="tests.long")
    row = a_job(
        JobState.DEAD,
        name="tests.long",
        last_error="ValueError: " + "x" * 1_000_000,
        input={"key": "y" * 100_000},
    )
    client = somebody(superuser=True)

    answer = client.get(url("job_change", row.id))

    assert len(answer.content) < 100_000
    assert "980,012 more characters" in answer.content.decode()
    assert len(client.get(url("job_changelist")).content) < 100_000
    assert len(client.get(url("job_dead")).content) < 100_000


def test_sensitive_fields_are_on_no_page(declare: Declarations) -> None:
    def pay(run: Run[Any]) -> None: ...

    declare(pay, name="tests.pay", input=Payment)
    row = a_job(
        JobState.DEAD,
        name="tests.pay",
        input={"key": "k", "card": CARD, "note": "plain"},
        result={"card_number": CARD, "echo": f"paid with {CARD}"},
        last_error=f"ValueError: {CARD} was declined\n  card = '{CARD}'",
        progress={"done": 1, "total": 2, "note": f"charging {CARD}"},
    )
    JobStep.objects.create(
        run_id=row.run_id,
        job_id=row.id,
        name="charge",
        position=0,
        status="failed",
        error=f"card {CARD} declined",
        output={"card": CARD},
    )
    client = somebody(superuser=True)

    for page in (
        url("job_changelist"),
        url("job_changelist", error="declined"),
        url("job_change", row.id),
        url("job_dead"),
        url("overview_changelist"),
        url("job_act", row.id, "retry"),
        url("job_bulk", "retry", which="matching", state="dead"),
    ):
        text = client.get(page).content.decode()
        assert "tests.pay" in text, page
        assert "4111-1111" not in text, page
    shown = seen(client.get(url("job_change", row.id))).text
    assert '"note": "plain"' in shown
    assert "[redacted] was declined" in shown


def test_a_guess_at_a_secret_is_not_answered(declare: Declarations) -> None:
    def pay(run: Run[Any]) -> None: ...

    declare(pay, name="tests.pay", input=Payment)
    row = a_job(
        JobState.DEAD,
        name="tests.pay",
        input={"key": "k", "card": CARD},
        last_error=f"ValueError: {CARD} was declined",
    )
    client = somebody("view_job", "retry_job")

    for text, found in (
        ("was DECLINED", 1),
        ("4111", 0),
        (f"{CARD} was", 0),
        ("[redacted] was", 0),
    ):
        page = client.get(url("job_changelist", error=text))
        assert len(page.context["jobs"]) == found, text
        question = client.get(url("job_bulk", "retry", which="matching", error=text))
        assert question.context["would"].affected == found, text
        sent = {"which": "matching", "error": text, "confirm": "yes"}
        if not found:
            client.post(url("job_bulk", "retry"), sent)
    assert Job.objects.get(id=row.id).state == JobState.DEAD


def test_a_payload_is_for_those_who_may_see_it(declare: Declarations) -> None:
    declare(name="tests.plain")
    row = a_job(
        JobState.DONE,
        name="tests.plain",
        input={"key": "k", "load": "the input"},
        result={"said": "the result"},
    )
    JobStep.objects.create(
        run_id=row.run_id, job_id=row.id, name="s", position=0, status="completed", output="made"
    )
    target = url("job_change", row.id)

    shown = somebody("view_job", "view_payload").get(target).content.decode()
    hidden = somebody(*VIEWS, *VERBS).get(target).content.decode()

    for text in ("the input", "the result", "made"):
        assert text in shown
        assert text not in hidden
    assert "view_payload" in hidden


def test_nothing_is_shown_of_what_a_job_that_is_not_known_here_was_given() -> None:
    row = a_job(
        JobState.DEAD,
        name="gone.job",
        input={"word": "hush-hush"},
        result={"word": "hush-hush"},
        last_error="ValueError: hush-hush",
    )
    client = somebody(superuser=True)

    for page in (url("job_change", row.id), url("job_changelist"), url("job_dead")):
        assert "hush-hush" not in client.get(page).content.decode()


def test_the_log_of_the_admin_keeps_no_payload(
    declare: Declarations, caplog: pytest.LogCaptureFixture
) -> None:
    declare(name="tests.plain")
    row = a_job(
        JobState.DEAD, name="tests.plain", input={"key": "hush-hush"}, last_error="hush-hush"
    )
    JobStep.objects.create(
        run_id=row.run_id, job_id=row.id, name="pay", position=0, status="started"
    )
    client = somebody(superuser=True)

    client.post(
        url("job_act", row.id, "resolve-step"),
        {"step": "pay", "ran": "yes", "output": json.dumps("hush-hush")},
    )
    client.post(url("job_act", row.id, "retry"))
    client.post(url("job_act", row.id, "remove"))

    assert LogEntry.objects.count() == 3
    for line in LogEntry.objects.all():
        assert "hush" not in f"{line.object_repr} {line.change_message}"
    assert "hush" not in caplog.text


# The texts themselves


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode 漢字 👩\u200d💻\n\ttab", "plain ünïcode 漢字 👩\u200d💻\n\ttab"),
        ("a\u202eb", r"a\u202eb"),
        ("a\x00b\x7f", r"a\u0000b\u007f"),
        ("a\r\nb", "a\\u000d\nb"),
        ("a\U000e0041b", r"a\U000e0041b"),
        ("", ""),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert harmless({text: [text, 7, None, True]}) == {shown: [shown, 7, None, True]}


def test_texts_are_cut_at_their_ends() -> None:
    assert shortened("x" * 10, 10) == "x" * 10
    assert shortened("x" * 11, 10) == "x" * 10 + "\n… 1 more characters"
    assert first_line(None) == ""
    assert first_line("\n one\ntwo") == "one"
    assert first_line("x" * 121) == "x" * 120 + "…"
    assert pretty({"a": "\u202e", "ü": 1}) == '{\n  "a": "\\u202e",\n  "ü": 1\n}'
