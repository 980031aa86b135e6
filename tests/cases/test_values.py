"""What goes in is what comes back: each value of ``inputs/values.csv`` is refused or stored exactly.

The file lists, for each value, what may become of it; the table below says what does.
"""

from __future__ import annotations

import csv
import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.utils.translation import gettext_lazy
from hypothesis import HealthCheck, given, settings as hypothesis_settings

from tests.builders import Ping, claim, declared, relay_all, sql, work_off
from tests.core.values import json_values
from ultimate_jobs import Retry, Run, publish_event
from ultimate_jobs.core.jsonform import canonical, dumps, loads
from ultimate_jobs.errors import EventNotPublishable, InputInvalid
from ultimate_jobs.models import Event, Job as JobRow

INPUTS = Path(__file__).parent / "inputs"
REFUSED = object()


class Letter(enum.StrEnum):
    A = "a"


@dataclass
class Point:
    x: int


class Unprintable:
    def __repr__(self) -> str:
        raise AssertionError("nobody may print this")


def _contains_itself() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


VALUES: dict[str, tuple[Callable[[], object], object]] = {
    "v1": (lambda: Decimal("1.10"), "1.10"),
    "v2": (lambda: UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "v3": (
        lambda: datetime(2026, 12, 1, 9, 30, 0, 123456, tzinfo=UTC),
        "2026-12-01T09:30:00.123456+00:00",
    ),
    "v4": (lambda: datetime(2026, 12, 1, 9, 30), "2026-12-01T09:30:00"),  # noqa: DTZ001
    "v5": (lambda: {1, 2}, REFUSED),
    "v6": (lambda: b"x", REFUSED),
    "v7": (lambda: (1, 2), [1, 2]),
    "v8": (lambda: {1: "a", "1": "b"}, REFUSED),
    "v9": (lambda: {"bb": 1, "a": 2}, {"a": 2, "bb": 1}),
    "v10": (lambda: float("nan"), REFUSED),
    "v11": (lambda: float("inf"), REFUSED),
    "v12": (lambda: 1e16, 10_000_000_000_000_000),
    "v13": (lambda: -0.0, 0.0),
    "v14": (lambda: 12345678901234567890123456789, 12345678901234567890123456789),
    "v15": (lambda: Letter.A, "a"),
    "v16": (lambda: Point(1), {"x": 1}),
    "v17": (lambda: gettext_lazy("Yes"), REFUSED),
    "v18": (Unprintable, REFUSED),
    "v19": (_contains_itself, REFUSED),
    "v20": (lambda: None, None),
    "v21": (lambda: ["", 0, False, []], ["", 0, False, []]),
}


def _rows() -> list[str]:
    with (INPUTS / "values.csv").open(newline="") as file:
        return [row["row"] for row in csv.DictReader(file)]


every_value = pytest.mark.parametrize("row", _rows())


def test_every_row_of_the_file_has_its_value() -> None:
    assert list(VALUES) == _rows()


@every_value
@pytest.mark.django_db(transaction=True)
def test_a_payload_is_refused_or_the_first_run_gets_what_is_stored(row: str) -> None:
    make, expected = VALUES[row]
    seen: list[str] = []

    def body(run: Run[Ping]) -> None:
        seen.append(repr(run.input.load))
        if len(seen) == 1:
            raise ValueError("once more")

    with declared(body, retry=Retry(attempts=2, delay="1ms", jitter=False)) as note:
        if expected is REFUSED:
            with transaction.atomic():
                with pytest.raises(InputInvalid):
                    note.enqueue(Ping("k", load=make()))
                sql("SELECT 1")
            assert not JobRow.objects.exists()
            return

        with transaction.atomic():
            note.enqueue(Ping("k", load=make()))
        relay_all()
        ((text,),) = JobRow.objects.values_list("input")
        assert repr(text["load"]) == repr(expected)
        JobRow.objects.update(state="ready")
        for _ in range(2):
            work_off()
            JobRow.objects.filter(state="ready").update(run_at="2001-01-01T00:00Z")
        assert seen == [repr(expected)] * 2


@every_value
@pytest.mark.django_db(transaction=True)
def test_a_result_is_refused_or_stored_exactly(row: str) -> None:
    make, expected = VALUES[row]

    with declared(lambda run: make()) as note:
        note.enqueue(Ping("k"))
        work_off()

    job = JobRow.objects.get()
    if expected is REFUSED:
        assert (job.state, job.attempt) == ("dead", 1)
        assert "X_JOB_RESULT_UNSERIALIZABLE" in (job.last_error or "")
    else:
        assert job.state == "done"
        assert repr(job.result) == repr(expected)


@every_value
@pytest.mark.django_db(transaction=True)
def test_a_step_answers_at_once_what_it_answers_on_replay_or_is_refused(row: str) -> None:
    make, expected = VALUES[row]
    calls: list[str] = []
    answers: list[str] = []

    def told() -> object:
        calls.append(row)
        return make()

    def body(run: Run[Ping]) -> None:
        answers.append(repr(run.step("told", told)))
        if len(answers) == 1:
            raise ValueError("once more")

    with declared(body, retry=Retry(attempts=2, delay="1ms", jitter=False)) as note:
        note.enqueue(Ping("k"))
        for _ in range(2):
            work_off()
            JobRow.objects.filter(state="ready").update(run_at="2001-01-01T00:00Z")

    job = JobRow.objects.get()
    assert len(calls) == 1
    if expected is REFUSED:
        assert (job.state, job.attempt) == ("dead", 1)
        assert "X_STEP_OUTPUT_UNSERIALIZABLE" in (job.last_error or "")
    else:
        assert (job.state, answers) == ("done", [repr(expected)] * 2)


@every_value
@pytest.mark.django_db(transaction=True)
def test_the_payload_of_an_event_is_refused_or_stored_exactly(row: str) -> None:
    make, expected = VALUES[row]

    with transaction.atomic():
        if expected is REFUSED:
            with pytest.raises(EventNotPublishable):
                publish_event("told", make())
            sql("SELECT 1")
        else:
            publish_event("told", make())

    assert [repr(event.payload) for event in Event.objects.all()] == (
        [] if expected is REFUSED else [repr(expected)]
    )


def _stored(text: str) -> object:
    """Send JSON text through the column type and read it as a worker does."""
    ((found,),) = sql("SELECT (%s::jsonb)::text", [text])
    return loads(found)


@pytest.mark.django_db
@hypothesis_settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=json_values)
def test_any_stored_form_comes_back_from_the_database_as_it_went_in(value: Any) -> None:
    form = canonical(value)

    assert repr(_stored(dumps(form))) == repr(form)


@pytest.mark.django_db(transaction=True)
def test_a_claimed_input_is_read_as_it_was_checked() -> None:
    load = {"é": 1e16, "bb": [-0.0, 1e-7, 5e-324, 1.7976931348623157e308], "a": {"z": 1, "y": 2}}
    with declared() as note:
        note.enqueue(Ping("k", load=load))
        (taken,) = claim(note.name).jobs

        assert repr(note.parse(loads(taken.input)).load) == repr(canonical(load))
