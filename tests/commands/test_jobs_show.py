"""``manage.py jobs show``: everything about one job, and nothing of a secret."""

from __future__ import annotations

import json

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import transaction

from tests.builders import Declarations, Ping, a_job, relay_all
from tests.commands.manage import manage
from ultimate_jobs import Concurrency, Job, Retry
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
    "run_id",
    "input",
    "traceparent",
    "enqueued_by",
    "related",
    "result",
    "progress",
    "claimed_by",
    "visible_at",
    "retry_delays",
    "lease_key",
    "concurrency_key",
    "steps",
}
INPUT = {"key": "a", "org": "acme", "load": None}


def shown(job_id: object) -> dict[str, object]:
    answer = manage("jobs", "show", str(job_id), "--json")
    assert answer.code == 0, answer.err
    document = answer.document
    assert isinstance(document, dict)
    return document


def test_a_shown_job_has_these_keys(declare: Declarations) -> None:
    ping = declare(retry=Retry(attempts=4, delay="2s", jitter=False))
    row = a_job(
        JobState.DONE,
        name=ping.name,
        max_attempts=4,
        attempt=2,
        result={"answer": 42},
        progress={"done": 1, "total": 2, "note": ""},
        input=INPUT,
    )

    job = shown(row.id)

    assert set(job) == KEYS
    assert (job["id"], job["run_id"]) == (str(row.id), str(row.run_id))
    assert (job["state"], job["attempt"], job["result"]) == ("done", 2, {"answer": 42})
    assert (job["last_error"], job["input"]) == (None, INPUT)
    assert job["progress"] == {"done": 1, "total": 2, "note": ""}
    assert job["retry_delays"] == [2.0, 4.0, 8.0]
    assert job["steps"] == []


def test_exactly_one_document_is_printed_even_for_text_with_line_breaks(
    declare: Declarations,
) -> None:
    ping = declare()
    row = a_job(JobState.DEAD, name=ping.name, input=INPUT, last_error="one\ntwo\u2028three\n")

    out = manage("jobs", "show", str(row.id), "--json").out

    _, end = json.JSONDecoder().raw_decode(out)
    assert out[end:] == "\n"
    assert json.loads(out)["last_error"] == "one\ntwo\u2028three\n"


@pytest.mark.parametrize(
    "job_id", ["00000000-0000-7000-8000-000000000000", "no id", "", "' OR 1=1"]
)
def test_an_id_nobody_has_is_refused_with_its_code(job_id: str) -> None:
    plain = manage("jobs", "show", job_id)
    document = manage("jobs", "show", job_id, "--json")

    assert (plain.code, plain.out) == (1, "")
    assert "X_JOB_UNKNOWN" in plain.err
    assert "manage.py jobs list" in plain.err
    assert document.code == 1
    assert document.document["error"]["code"] == "X_JOB_UNKNOWN"


def test_a_staged_id_shows_its_row_before_and_after_the_relay(declare: Declarations) -> None:
    ping = declare(retry=Retry(attempts=2, delay="3s", jitter=False))
    with transaction.atomic():
        queued = ping.enqueue(Ping("a"), tenant="acme", enqueued_by="u-1", priority=4)

    staged = shown(queued.id)
    relay_all()
    published = shown(queued.id)

    assert set(staged) == set(published) == KEYS
    assert (staged["state"], published["state"]) == ("staged", "ready")
    assert staged["attempt"] == 0
    moved = {"state", "updated_at"}
    assert {k: v for k, v in staged.items() if k not in moved} == {
        k: v for k, v in published.items() if k not in moved
    }


def test_an_id_that_was_deduplicated_shows_the_job_that_answers_for_it(
    declare: Declarations,
) -> None:
    ping = declare()
    with transaction.atomic():
        staged = ping.enqueue(Ping("a"))
    holder = a_job(name=ping.name, idempotency_key="a", input=INPUT)
    relay_all()

    assert shown(staged.id)["id"] == str(holder.id)

    JobRow.objects.all().delete()
    gone = manage("jobs", "show", str(staged.id), "--json")
    assert (gone.code, gone.document["error"]["code"]) == (1, "X_JOB_UNKNOWN")


def test_nothing_of_an_unknown_jobs_input_or_result_is_shown() -> None:
    row = a_job(
        JobState.DONE, name="app.gone", input={"pin": "pin-of-four"}, result={"pin": "pin-of-four"}
    )

    job = shown(row.id)

    assert (job["input"], job["result"], job["retry_delays"]) == ("[redacted]", None, [])
    assert "pin-of-four" not in manage("jobs", "show", str(row.id)).out


def test_values_that_read_like_secrets_are_masked_in_input_and_result(
    declare: Declarations,
) -> None:
    ping: Job[Ping, object] = declare()
    secrets = {"api_key": "s3cret", "deep": [{"Password": "s3cret", "plain": "seen"}]}
    row = a_job(JobState.DONE, name=ping.name, input={**INPUT, "load": secrets}, result=secrets)

    for out in (
        manage("jobs", "show", str(row.id)).out,
        manage("jobs", "show", str(row.id), "--json").out,
    ):
        assert "s3cret" not in out
        assert "seen" in out
        assert "[redacted]" in out


def test_the_related_object_is_named(declare: Declarations) -> None:
    ping = declare()
    user = ContentType.objects.get(app_label="auth", model="user")
    row = a_job(name=ping.name, input=INPUT, related_type=user, related_id="7")
    stray = a_job(name=ping.name, input=INPUT, related_type_id=999_999, related_id="7")

    assert shown(row.id)["related"] == {"type": "auth.user", "id": "7"}
    assert shown(stray.id)["related"] == {"type": "unknown", "id": "7"}


def test_the_concurrency_key_is_computed_from_the_input(declare: Declarations) -> None:
    capped = declare(concurrency=Concurrency(key=lambda i: f"org:{i.org}", limit=1))
    row = a_job(name=capped.name, input=INPUT)
    broken = a_job(name=capped.name, input=["no longer parses"])

    assert shown(row.id)["concurrency_key"] == "org:acme"
    assert shown(broken.id)["concurrency_key"] is None


def test_people_see_the_fields_and_the_whole_error(declare: Declarations) -> None:
    ping = declare()
    row = a_job(JobState.DEAD, name=ping.name, input=INPUT, last_error='boom\n  File "x", line 1')

    out = manage("jobs", "show", str(row.id)).out

    for part in (str(row.id), "dead", '"org": "acme"', "boom", 'File "x", line 1'):
        assert part in out
    assert "claimed_by" not in out, "what is empty is left out"
