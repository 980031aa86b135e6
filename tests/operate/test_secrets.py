"""What is declared sensitive leaves the row nowhere: inputs, results, steps, errors, lists, groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from django.db import transaction

from tests.builders import a_job, sql
from tests.commands.manage import manage
from ultimate_jobs import NO_TENANT, SENSITIVE, Job, Retry, Run, job
from ultimate_jobs.core.states import JobState
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.models import Job as JobRow, JobStep
from ultimate_jobs.operate.inspection import Filter, list_jobs, show_job

pytestmark = pytest.mark.django_db(transaction=True)

CARD, PIN, NOTE = "4000-CANARY-1", "CANARY-3", "CANARY-2"
QUOTING = (
    f"ValueError: {{'number': '{CARD}', 'nested': {{'pin': '{PIN}'}}}}\n"
    f"  File x\nCaused by: no {PIN} at https://u:CANARY-4@h/p"
)


@dataclass(frozen=True, slots=True)
class Nested:
    pin: Annotated[str, SENSITIVE]


@dataclass(frozen=True, slots=True)
class Payment:
    number: Annotated[str, SENSITIVE]
    note: str
    nested: Nested


INPUT = {"number": CARD, "note": NOTE, "nested": {"pin": PIN}}


@pytest.fixture
def pay() -> Iterator[Job[Payment, None]]:
    """Declare a job with sensitive fields."""

    @job(
        input=Payment,
        tenant=NO_TENANT,
        idempotency_key=lambda i: i.note,
        retry=Retry(attempts=3),
        name="tests.pay",
    )
    def pay(run: Run[Payment]) -> None: ...

    yield pay
    registry.discard(pay)


def a_payment(state: JobState = JobState.DEAD, **columns: Any) -> JobRow:
    row = a_job(
        state,
        **{
            "name": "tests.pay",
            "input": INPUT,
            "last_error": QUOTING,
            "result": {"charged": CARD, "api_token": "CANARY-5"},
            "progress": {"done": 1, "total": 2, "note": f"charging {CARD}"},
            **columns,
        },
    )
    JobStep.objects.create(
        run_id=row.run_id,
        name="charge",
        job_id=row.id,
        position=1,
        status="failed",
        error=QUOTING,
        output={"said": PIN},
    )
    return row


SCREENS: list[Callable[[str], tuple[str, ...]]] = [
    lambda job: ("show", job),
    lambda job: ("show", job, "--outputs"),
    lambda job: ("list",),
    lambda job: ("dead",),
    lambda job: ("retry", "--state", "dead", "--dry-run"),
    lambda job: ("stats",),
    lambda job: ("retry", job),
    lambda job: ("remove", job),
]


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["people", "json"])
@pytest.mark.parametrize("words", SCREENS, ids=lambda words: " ".join(words("ID")))
def test_no_screen_shows_what_is_sensitive(
    pay: Job[Payment, None], words: Callable[[str], tuple[str, ...]], as_json: tuple[str, ...]
) -> None:
    row = a_payment()

    answer = manage("jobs", *words(str(row.id)), *as_json)

    assert answer.code == 0, answer.err
    for canary in (CARD, PIN, "CANARY-4", "CANARY-5"):
        assert canary not in answer.out + answer.err


def test_what_is_not_sensitive_is_shown(pay: Job[Payment, None]) -> None:
    shown = show_job(str(a_payment().id), outputs=True)

    assert shown["input"] == {"nested": {"pin": "[redacted]"}, "note": NOTE, "number": "[redacted]"}
    assert shown["last_error"].startswith("ValueError: {'number': '[redacted]'")
    assert shown["result"] == {"charged": "[redacted]", "api_token": "[redacted]"}
    assert shown["steps"][0]["output"] == {"said": "[redacted]"}
    assert "output" not in show_job(shown["id"])["steps"][0]


def test_a_job_that_is_not_known_here_shows_nothing_of_its_input() -> None:
    row = a_payment()

    texts = [json.dumps(show_job(str(row.id), outputs=True)), json.dumps(list_jobs(Filter()))]

    for text in texts:
        for canary in (CARD, PIN, NOTE, "CANARY-4", "CANARY-5"):
            assert canary not in text


def test_an_error_whose_input_is_too_large_for_a_list_shows_its_type(
    pay: Job[Payment, None],
) -> None:
    row = a_payment()
    sql(
        "UPDATE x_jobs SET input = input || jsonb_build_object('note',"
        " (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 5000) AS n))"
    )

    (listed,) = list_jobs(Filter())

    assert listed["last_error"] == "ValueError: [redacted]"
    assert show_job(str(row.id))["last_error"].startswith("ValueError: {'number'")


def test_a_staged_row_is_masked_like_a_job(pay: Job[Payment, None]) -> None:
    with transaction.atomic():
        staged = pay.enqueue(Payment(CARD, NOTE, Nested(PIN)))

    shown = json.dumps(show_job(str(staged.id)))

    assert NOTE in shown
    assert CARD not in shown
    assert PIN not in shown
