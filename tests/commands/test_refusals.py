"""What every command refuses before it does anything, each with a code and without a traceback."""

from __future__ import annotations

import os

import pytest
from pytest_django import Settings

from tests.builders import a_job, states
from tests.commands.manage import Answer, manage
from ultimate_jobs.drivers.handler import set_driver
from ultimate_jobs.drivers.memory import MemoryDriver

pytestmark = pytest.mark.django_db(transaction=True)

NOBODY = "00000000-0000-7000-8000-000000000000"
NO_TEXT = os.fsdecode(b"\xff")

every_command = pytest.mark.parametrize(
    "words",
    [
        ["jobs", "list"],
        ["jobs", "show", NOBODY],
        ["jobs_relay", "--drain"],
        ["jobs_worker", "--drain"],
    ],
    ids=" ".join,
)


@pytest.fixture
def wrong_settings(settings: Settings) -> None:
    """Make two mistakes in the settings."""
    settings.ULTIMATE_JOBS = {"CONCURENCY": 4, "OUTBOX": "never"}


def refusal(answer: Answer) -> str:
    """Answer the one line that says why; nothing else was printed."""
    assert answer.out == ""
    (line,) = [line for line in answer.err.splitlines() if line.startswith("CommandError: ")]
    return line.removeprefix("CommandError: ")


@every_command
def test_no_command_starts_over_wrong_settings(wrong_settings: None, words: list[str]) -> None:
    answer = manage(*words)

    assert (answer.code, answer.out) == (1, "")
    assert answer.err.count("(ultimate_jobs.E001)") == 2
    assert "did you mean 'CONCURRENCY'?" in answer.err


@pytest.mark.parametrize(
    "words",
    [["jobs_relay"], ["jobs_relay", "--drain"], ["jobs_worker", "--drain"], ["jobs_scheduler"]],
    ids=" ".join,
)
def test_no_process_starts_over_rows_that_end_with_it(words: list[str]) -> None:
    """Draining into memory would lose every job that it moves."""
    set_driver(MemoryDriver())
    try:
        answer = manage(*words)
    finally:
        set_driver(None)

    assert answer.code == 2
    assert refusal(answer).startswith("X_DRIVER_LACKS: The driver 'memory' keeps its rows")


@every_command
def test_wrong_settings_are_refused_although_the_checks_are_skipped(
    wrong_settings: None, words: list[str]
) -> None:
    command, *rest = words
    answer = manage(command, "--skip-checks", *rest)

    assert answer.code == (1 if command == "jobs" else 2)
    assert refusal(answer).startswith("X_CONFIG_INVALID: ")
    assert "CONCURENCY" in answer.err
    assert "OUTBOX" in answer.err


def test_wrong_settings_are_the_document_where_one_was_asked_for(wrong_settings: None) -> None:
    answer = manage("jobs", "--skip-checks", "list", "--json")

    assert (answer.code, answer.err) == (1, "")
    assert answer.document["error"]["code"] == "X_CONFIG_INVALID"


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "list", "--queue", NO_TEXT],
        ["jobs", "list", "--name", NO_TEXT],
        ["jobs", "list", "--tenant", NO_TEXT],
        ["jobs", "list", "--tenant", "a\x00b"],
        ["jobs_worker", "--drain", "--queues", f"default,{NO_TEXT}"],
        ["jobs_worker", "--drain", "--name", NO_TEXT],
        ["jobs_worker", "--drain", "--with", NO_TEXT],
    ],
    ids=ascii,
)
def test_text_that_no_row_can_hold_is_a_wrong_option(words: list[str]) -> None:
    a_job()

    answer = manage(*words)

    assert (answer.code, answer.out) == (2, "")
    assert f"argument {words[-2]}: this text cannot be stored" in answer.err
    assert states() == {"ready": 1}


@pytest.mark.parametrize("cursor", ["--after", "--before"])
def test_an_empty_cursor_is_no_first_page(cursor: str) -> None:
    a_job()

    answer = manage("jobs", "list", "--json", cursor, "")

    assert answer.code == 1
    assert answer.document["error"]["code"] == "X_JOB_PAGE_INVALID"
