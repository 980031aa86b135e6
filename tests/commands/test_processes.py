"""Commands as processes of their own: exit codes, one document, no traceback, signals, a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

import pytest

from testproject.postgres.server import ROOT
from testproject.shop.jobs import checkout
from testproject.shop.orders import place
from tests.builders import PATIENCE, a_job, staged, states, wait_until
from tests.commands.manage import Answer
from tests.commands.project import Project
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import JobStep

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.django_db(transaction=True),
]

NOBODY = "00000000-0000-7000-8000-000000000000"
NOWHERE = {"DATABASE_URL": "postgresql://postgres@127.0.0.1:1/nowhere"}
ALL = [
    ["jobs", "list"],
    ["jobs", "show", NOBODY],
    ["jobs_relay", "--drain"],
    ["jobs_worker", "--drain"],
]
named = pytest.mark.parametrize("words", ALL, ids=" ".join)


def refused(answer: Answer) -> str:
    """Answer the one line that says why; nothing else was printed, and no traceback."""
    assert answer.out == ""
    assert "Traceback" not in answer.err
    (line,) = [line for line in answer.err.splitlines() if line.startswith("CommandError: ")]
    return line.removeprefix("CommandError: ")


# Exit codes


def test_an_answer_exits_0_and_is_all_there_is_on_standard_output() -> None:
    row = a_job(JobState.DONE, name=checkout.name, result={"charged": True})

    listed = Project().manage("jobs", "list", "--json")
    shown = Project().manage("jobs", "show", str(row.id), "--json")

    assert (listed.code, listed.err) == (shown.code, shown.err) == (0, "")
    assert listed.out.count("\n") == shown.out.count("\n") == 1
    assert [job["id"] for job in listed.document["jobs"]] == [str(row.id)]
    assert shown.document["result"] == {"charged": True}


def test_what_is_not_there_exits_1_with_the_refusal_as_the_document() -> None:
    plain = Project().manage("jobs", "show", NOBODY)
    as_json = Project().manage("jobs", "show", NOBODY, "--json")

    assert plain.code == as_json.code == 1
    assert refused(plain).startswith("X_JOB_UNKNOWN: No job has this id. Fix: ")
    assert as_json.err == ""
    assert as_json.document == {
        "error": {
            "code": "X_JOB_UNKNOWN",
            "cause": "No job has this id.",
            "fix": "List the jobs with: manage.py jobs list",
        }
    }


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "list", "--limit", "0"],
        ["jobs_worker", "--with", "cook"],
    ],
    ids=" ".join,
)
def test_a_wrong_option_exits_2(words: list[str]) -> None:
    answer = Project().manage(*words)

    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err


def test_a_wrong_option_is_a_document_where_one_was_asked_for() -> None:
    answer = Project().manage("jobs", "list", "--json", "--limit", "0")

    assert answer.code == 2
    assert answer.document["error"]["code"] == "X_USAGE"
    assert "--limit" in answer.document["error"]["cause"]
    assert "Traceback" not in answer.err


def test_draining_does_all_the_work_that_is_due_and_exits_0() -> None:
    place("o-1", Decimal(7))
    place("o-2", Decimal(8))

    answer = Project().manage("jobs_worker", "--drain", "--with", "relay")

    assert (answer.code, answer.out) == (0, "")
    assert states() == {"suspended": 2}
    assert JobStep.objects.filter(name="accept", status="completed").count() == 2


# What keeps a command from working


@named
def test_a_database_that_cannot_be_reached_is_said_so(words: list[str]) -> None:
    answer = Project(NOWHERE).manage(*words)

    assert answer.code == 1
    assert refused(answer).startswith("X_DRIVER_UNAVAILABLE: ")


@pytest.mark.parametrize("verb", [["list"], ["show", NOBODY]], ids=["list", "show"])
def test_a_database_that_cannot_be_reached_is_said_so_in_the_document(verb: list[str]) -> None:
    answer = Project(NOWHERE).manage("jobs", *verb, "--json")

    assert (answer.code, answer.err) == (1, "")
    assert answer.document["error"]["code"] == "X_DRIVER_UNAVAILABLE"


def test_queues_of_the_environment_that_are_no_text_are_refused() -> None:
    answer = Project().manage("jobs_worker", "--drain", WORKER_QUEUES=os.fsdecode(b"a,\xff"))

    assert answer.code == 2
    assert refused(answer).startswith("X_CONFIG_INVALID: WORKER_QUEUES: ")


# A shell of another encoding


def test_any_text_comes_through_a_pipe_that_knows_only_ascii() -> None:
    key = "Zoë 注文 😀"
    row = a_job(JobState.DEAD, idempotency_key=key, last_error=key)

    as_json = Project().manage("jobs", "show", str(row.id), "--json", PYTHONIOENCODING="ascii")

    assert (as_json.code, as_json.err) == (0, "")
    assert as_json.document["idempotency_key"] == key


# Signals


@contextmanager
def started(*words: str, says: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command and wait until it has said that it is at work."""
    with Project().start(*words) as process:
        try:
            assert process.stderr is not None
            if says:
                assert any(says in line for line in process.stderr)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
@pytest.mark.parametrize("roles", [[], ["--with", "relay"]], ids=["alone", "with relay"])
def test_an_idle_worker_that_is_told_to_stop_exits_0(
    number: signal.Signals, roles: list[str]
) -> None:
    with started("jobs_worker", *roles, says="jobs.worker.started") as worker:
        worker.send_signal(number)

        assert worker.wait(PATIENCE) == 0
        assert worker.stderr is not None
        rest = worker.stderr.read()
    assert f"signal={number.name}" in rest
    assert "jobs.worker.stopped" in rest
    assert "Traceback" not in rest


def test_a_worker_with_a_relay_runs_what_is_staged_until_it_is_told_to_stop() -> None:
    with started("jobs_worker", "--with", "relay", says="jobs.worker.started") as worker:
        place("o-1", Decimal(7))
        wait_until(lambda: JobStep.objects.filter(name="accept").exists(), what="the first step")
        worker.send_signal(signal.SIGTERM)

        assert worker.wait(PATIENCE) == 0


def test_a_relay_moves_what_is_staged_until_it_is_told_to_stop() -> None:
    place("o-1", Decimal(7))
    with started("jobs_relay", says="") as relay:
        wait_until(lambda: states() == {"ready": 1}, what="the first row to be published")
        place("o-2", Decimal(8))
        wait_until(lambda: states() == {"ready": 2}, what="the second row to be published")
        relay.send_signal(signal.SIGTERM)

        assert relay.wait(PATIENCE) == 0
        assert relay.stderr is not None
        assert "Traceback" not in relay.stderr.read()
    assert not staged()


# A terminal


def on_a_terminal(*words: str, **env: str) -> str:
    """Run a command whose standard output is a terminal; answer all that it was sent."""
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            Project().words(*words),
            cwd=ROOT,
            env=Project().environ(TERM="xterm-256color", COLUMNS="120", **env),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=300,
        )
    finally:
        os.close(theirs)
    return received(ours)


def received(terminal: int) -> str:
    parts: list[bytes] = []
    with open(terminal, "rb", buffering=0) as screen:
        while True:
            try:
                part = screen.read(65_536)
            except OSError:  # nobody holds the other end any more
                break
            if not part:
                break
            parts.append(part)
    return b"".join(parts).decode()


COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def test_a_terminal_is_sent_colours_of_ours_and_no_sequence_of_a_rows() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\x9b2J\x08\x7f"
    row = a_job(
        JobState.DEAD,
        name=checkout.name,
        idempotency_key=f"k{evil}",
        last_error=f"e{evil}",
        input=evil,
    )

    for words in (["list"], ["show", str(row.id)]):
        sent = on_a_terminal("jobs", *words)
        left = COLOUR.sub("", sent).replace("\r\n", "")

        assert sent != COLOUR.sub("", sent)
        assert left.isprintable(), ascii(left)
        assert "\\x1b[2J" in left
    document = on_a_terminal("jobs", "show", str(row.id), "--json")
    assert document.removesuffix("\r\n").isprintable(), ascii(document)
    assert json.loads(document)["idempotency_key"] == f"k{evil}"


def test_a_terminal_is_sent_no_colour_when_it_is_not_wanted() -> None:
    row = a_job(JobState.DEAD)

    for words in (["list"], ["show", str(row.id)]):
        sent = on_a_terminal("jobs", "--no-color", *words)

        assert str(row.id) in sent
        assert "\x1b" not in sent


def test_a_narrow_terminal_is_shown_every_id_in_full() -> None:
    row = a_job(JobState.DEAD, name="shop." + "long_" * 20, last_error="x" * 300)

    sent = COLOUR.sub("", on_a_terminal("jobs", "list"))

    assert str(row.id) in sent
