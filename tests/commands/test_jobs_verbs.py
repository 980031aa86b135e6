"""The verbs of ``manage.py jobs``: one way to answer, to refuse, to ask and to exit."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import load_command_class
from django.utils.module_loading import import_string
from pytest_django import Settings

from testproject.postgres.server import ROOT
from tests.builders import Declarations, a_job, a_worker, some_jobs, sql, states
from tests.commands.manage import Answer as Said, manage
from tests.commands.project import Project
from ultimate_jobs.core.states import JobState
from ultimate_jobs.management.commands import jobs
from ultimate_jobs.management.commands.jobs import VERBS, Command
from ultimate_jobs.management.verb import Answer, Verb
from ultimate_jobs.models import Job as JobRow, JobStep

pytestmark = pytest.mark.django_db(transaction=True)

NOBODY = "00000000-0000-7000-8000-000000000000"
LATER = timedelta(hours=1)

READS = {
    "list": ["list"],
    "dead": ["dead"],
    "outbox": ["outbox"],
    "describe": ["describe"],
    "stats": ["stats"],
    "workers": ["workers"],
    "counters": ["counters", "--buckets"],
    "health": ["health"],
    "config": ["config"],
    "sql": ["sql"],
    "sql claim": ["sql", "claim"],
    "tasks": ["tasks", "list"],
    "task": ["tasks", "show", "ultimate_jobs.purge"],
    "purge": ["purge", "--dry-run"],
    "watch": ["watch", "--count", "2", "--every", "1ms"],
    "dry run": ["remove", "--all", "--dry-run"],
}


class Terminal(io.StringIO):
    """A standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def filled(declare: Declarations) -> None:
    """Have one of everything, with texts that would steer a terminal."""
    for state in JobState:
        a_job(state, name=declare().name, last_error="ValueError: \x1b[2J", due_in=LATER)
    a_worker("w-1")
    sql(
        "INSERT INTO x_job_counters (bucket, name, shard, done, retried, failed, dead, duration_ms)"
        " VALUES (now(), 'a', 0, 1, 0, 0, 0, 5)"
    )


@pytest.mark.parametrize("words", READS.values(), ids=READS)
def test_every_read_has_one_document_and_a_drawing(filled: None, words: list[str]) -> None:
    before = states()

    plain, document = manage("jobs", *words), manage("jobs", *words, "--json")

    assert (plain.code, plain.err, document.code, document.err) == (0, "", 0, "")
    assert plain.out.strip()
    assert "\x1b[2J" not in plain.out + document.out
    found, end = json.JSONDecoder().raw_decode(document.out)
    assert isinstance(found, dict)
    assert document.out[end:] == "\n"
    assert states() == before


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["show", NOBODY], 1, "X_JOB_UNKNOWN"),
        (["retry", NOBODY], 1, "X_JOB_UNKNOWN"),
        (["promote", NOBODY], 1, "X_JOB_UNKNOWN"),
        (["remove", NOBODY], 1, "X_JOB_UNKNOWN"),
        (["cancel", NOBODY], 1, "X_JOB_NOT_CANCELLABLE"),
        (["describe", "nobody"], 1, "X_JOB_NAME_UNKNOWN"),
        (["retry"], 2, "X_USAGE"),
        (["retry", NOBODY, "--queue", "mail"], 2, "X_USAGE"),
        (["remove", NOBODY, "--all"], 2, "X_USAGE"),
        (["retry", "--all", "--from-step", "a"], 2, "X_USAGE"),
        (["retry", "--state", "running", "--yes"], 1, "X_JOB_SELECTION_INVALID"),
        (["retry", "--all", "--limit", "1001", "--dry-run"], 1, "X_INVARIANT"),
        (["retry", "--all", "--after", "nothing", "--dry-run"], 1, "X_JOB_PAGE_INVALID"),
        (["list", "--related", "shop.nothing:1"], 2, "X_USAGE"),
        (["list", "--related", "shop.order"], 2, "X_USAGE"),
        (["sql", "nothing"], 2, "X_USAGE"),
        (["list", "--state", "gone"], 2, "X_USAGE"),
        (["list", "--older-than", "soon"], 2, "X_USAGE"),
        (["health", "--max-dead", "-1"], 2, "X_USAGE"),
        (["explode"], 2, "X_USAGE"),
        (["list", "--colour"], 2, "X_USAGE"),
        (["pause", ""], 1, "X_INVARIANT"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_a_refusal_is_one_document_with_its_code(words: list[str], code: int, error: str) -> None:
    plain, document = manage("jobs", *words), manage("jobs", *words, "--json")

    assert (plain.code, plain.out, document.code) == (code, "", code)
    assert plain.err
    assert "Traceback" not in plain.err + document.err
    assert set(document.document) == {"error"}
    assert document.document["error"]["code"] == error
    assert document.document["error"]["fix"]


def test_a_failed_check_is_a_document_too(settings: Settings) -> None:
    settings.ULTIMATE_JOBS = {"CONCURENCY": 4}

    answer = manage("jobs", "list", "--json")

    assert answer.code == 1
    assert answer.document["error"]["code"] == "X_CHECKS_FAILED"
    assert "did you mean 'CONCURRENCY'?" in answer.err


def test_only_the_checks_of_this_package_are_run() -> None:
    assert Command.requires_system_checks == ("ultimate_jobs",)


def test_a_missing_table_is_named_with_its_fix() -> None:
    sql("ALTER TABLE x_jobs RENAME TO x_jobs_elsewhere")
    try:
        answer = manage("jobs", "list", "--json")
    finally:
        sql("ALTER TABLE x_jobs_elsewhere RENAME TO x_jobs")

    assert answer.code == 1
    assert answer.document["error"]["code"] == "X_DRIVER_UNAVAILABLE"
    assert "migrate" in answer.document["error"]["fix"]


# One job


def test_a_verb_on_one_job_shows_the_job() -> None:
    row = a_job(JobState.DELAYED, due_in=LATER)

    assert manage("jobs", "promote", str(row.id), "--json").document["state"] == "ready"
    assert manage("jobs", "cancel", str(row.id), "--reason", "no", "--json").document[
        "last_error"
    ] == ("no")
    assert manage("jobs", "retry", str(row.id), "--json").document["state"] == "ready"
    assert manage("jobs", "remove", str(row.id), "--json").document["id"] == str(row.id)
    assert not JobRow.objects.exists()


def test_the_outputs_of_steps_are_shown_when_asked_for(declare: Declarations) -> None:
    row = a_job(JobState.DONE, name=declare().name)
    JobStep.objects.create(
        run_id=row.run_id,
        name="charge",
        job_id=row.id,
        position=1,
        status="completed",
        output={"receipt": "r-7", "token": "hidden"},
    )

    assert "r-7" not in manage("jobs", "show", str(row.id)).out
    shown = manage("jobs", "show", str(row.id), "--outputs")
    assert "r-7" in shown.out
    assert "hidden" not in shown.out


# Many jobs


def answered(words: str, said: str, monkeypatch: pytest.MonkeyPatch) -> Said:
    """Run a command at a terminal where somebody types ``said``."""
    monkeypatch.setattr(sys, "stdin", Terminal(said))
    return manage("jobs", *words.split())


@pytest.mark.parametrize("said", ["n\n", "\n", "", "yeah\n"])
def test_nothing_is_changed_unless_somebody_says_yes(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_jobs(2, JobState.DEAD)

    answer = answered("retry --state dead", said, monkeypatch)

    assert answer.code == 1
    assert "This would retry 2 jobs. Go on? [y/N]" in answer.err
    assert "X_NOT_CONFIRMED" in answer.err
    assert states() == {"dead": 2}


@pytest.mark.parametrize("said", ["y\n", "YES\n"])
def test_somebody_at_the_terminal_may_say_yes(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    some_jobs(2, JobState.DEAD)

    answer = answered("retry --state dead --json", said, monkeypatch)

    assert (answer.code, answer.document["affected"]) == (0, 2)
    assert states() == {"ready": 2}


def test_without_a_terminal_nothing_is_asked_and_nothing_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    some_jobs(2, JobState.DEAD)

    answer = manage("jobs", "retry", "--state", "dead", "--json")

    assert (answer.code, answer.document["error"]["code"]) == (1, "X_NOT_CONFIRMED")
    assert "--yes" in answer.document["error"]["fix"]
    assert states() == {"dead": 2}


def test_a_bulk_verb_says_what_it_did_and_what_is_left() -> None:
    some_jobs(5, JobState.DEAD)

    done = manage("jobs", "retry", "--state", "dead", "--limit", "2", "--yes", "--json").document

    assert (done["verb"], done["dry_run"], done["affected"]) == ("retry", False, 2)
    assert (done["remaining"], done["capped"], done["next"]) == (3, False, None)
    assert (len(done["jobs"]), done["sample"]) == (2, [])
    assert done["selection"] == {"states": ["dead"]}
    assert states() == {"dead": 3, "ready": 2}


def test_a_dry_run_needs_no_yes_and_shows_a_sample() -> None:
    (row,) = some_jobs(1, JobState.DEAD)

    would = manage("jobs", "remove", "--all", "--dry-run")

    assert would.code == 0
    assert "would remove: 1 jobs, 0 remain" in would.out
    assert str(row.id) in would.out
    assert states() == {"dead": 1}


def test_the_line_of_a_group_retries_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        a_job(JobState.DEAD, last_error=f"ValueError: order {n} isn't there")
    other = a_job(JobState.DEAD, last_error="KeyError: 'a'")
    (line, _) = (group["retry"] for group in manage("jobs", "dead", "--json").document["groups"])

    done = manage("jobs", *shlex.split(line)[2:], "--yes", "--json").document

    assert done["affected"] == 3
    assert [row.id for row in JobRow.objects.filter(state="dead")] == [other.id]


# Queues, health, watching


def test_a_pause_says_who_and_why_and_a_resume_ends_it() -> None:
    paused = manage("jobs", "pause", "mail", "--reason", "migration", "--json").document

    assert (paused["verb"], paused["changed"]) == ("pause", True)
    (pause,) = paused["pauses"]
    assert pause["reason"] == "migration"
    assert pause["paused_by"] == paused["by"]
    assert "it was already" in manage("jobs", "pause", "mail").out
    assert manage("jobs", "resume", "mail", "--json").document["pauses"] == []


# What is past its time


@pytest.fixture
def old() -> JobRow:
    """Have a job that is past its retention, and one that is not."""
    a_job(JobState.DEAD)
    return a_job(JobState.DONE, updated_at=datetime(2020, 1, 1, tzinfo=UTC))


def test_a_purge_without_a_terminal_needs_a_yes(
    old: JobRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))

    answer = manage("jobs", "purge", "--json")

    assert (answer.code, answer.document["error"]["code"]) == (1, "X_NOT_CONFIRMED")
    assert "--yes" in answer.document["error"]["fix"]
    assert states() == {"dead": 1, "done": 1}


def test_a_dry_purge_counts_what_is_past_its_time_and_deletes_nothing(old: JobRow) -> None:
    would = manage("jobs", "purge", "--dry-run", "--json").document

    assert (would["dry_run"], would["purged"]["done"], would["purged"]["dead"]) == (True, 1, 0)
    assert "would delete" in manage("jobs", "purge", "--dry-run").out
    assert states() == {"dead": 1, "done": 1}


def test_a_purge_deletes_what_is_past_its_time(
    old: JobRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = manage("jobs", "purge", "--yes", "--json").document
    again = answered("purge", "y\n", monkeypatch)

    assert (done["dry_run"], done["purged"]["done"], done["purged"]["dead"]) == (False, 1, 0)
    assert states() == {"dead": 1}
    assert "This would delete what is past its retention. Go on? [y/N]" in again.err
    assert "deleted" in again.out


def test_a_limit_that_is_passed_makes_a_probe_fail() -> None:
    some_jobs(2, JobState.DEAD)

    well = manage("jobs", "health", "--max-dead", "2", "--json")
    ill = manage("jobs", "health", "--max-dead", "1", "--json")
    said = manage("jobs", "health", "--max-dead", "1", "--queue", "mail,default")

    assert (well.code, well.document["healthy"]) == (0, True)
    assert (ill.code, ill.document["healthy"]) == (1, False)
    assert ill.document["problems"] == [
        {"limit": "max_dead", "queue": "default", "value": 2, "most": 1}
    ]
    assert said.code == 1
    assert "max_dead: default has 2, at most 1" in said.out


def test_a_watch_ends_after_its_looks() -> None:
    a_job(queue="mail")

    answer = manage("jobs", "watch", "--count", "2", "--every", "1ms")

    assert answer.code == 0
    assert answer.out.count("mail") == 2


@pytest.mark.scenario
@pytest.mark.timeout(90)
@pytest.mark.parametrize("end", ["q", "ctrl-c"])
def test_a_key_ends_a_watch_and_leaves_the_terminal_as_it_was(end: str) -> None:
    a_job(queue="mail")
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    project = Project()
    watching = subprocess.Popen(
        project.words("jobs", "watch", "--every", "30s"),
        cwd=ROOT,
        env=project.environ(TERM="xterm", COLUMNS="200"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    try:
        seen = b""
        while b"q ends" not in seen:
            seen += os.read(ours, 65_536)
        assert b"mail" in seen
        if end == "q":
            os.write(ours, b"xq")
        else:
            watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0
        assert termios.tcgetattr(theirs)[3] == before[3]
    finally:
        watching.kill()
        watching.wait()
        os.close(ours)
        os.close(theirs)


@pytest.mark.scenario
@pytest.mark.timeout(90)
def test_a_reader_that_has_seen_enough_gets_no_traceback() -> None:
    project = Project()
    with project.start("jobs", "watch", "--every", "1ms") as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        watching.stdout.readline()
        watching.stdout.close()
        code = watching.wait(60)
        said = watching.stderr.read()

    assert code == 1
    assert "Traceback" not in said


def test_people_are_the_only_ones_who_wait_for_what_draws() -> None:
    loads = (
        "import sys, django; django.setup();"
        "import ultimate_jobs.management.commands.jobs;"
        "sys.exit('rich.console' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", loads], env=Project().environ(), check=False, timeout=60
    )

    assert done.returncode == 0


def verbs_of(verbs: Iterable[Verb], *above: str) -> Iterator[tuple[list[str], Verb]]:
    """Answer every verb that does something, with the words that lead to it."""
    for verb in verbs:
        assert verb.help
        if verb.verbs:
            yield from verbs_of(verb.verbs, *above, verb.name)
        else:
            yield [*above, verb.name], verb


def test_every_verb_takes_json_and_has_a_screen() -> None:
    parser = load_command_class("ultimate_jobs", "jobs").create_parser("manage.py", "jobs")
    for words, verb in verbs_of(VERBS):
        assert verb.run
        assert callable(import_string(f"ultimate_jobs.management.screens.{verb.screen}"))
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
            parser.parse_args([*words, "--help"])
        assert "--json" in said.getvalue(), words


def test_a_verb_may_have_verbs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Verb(name="next", help="say when", run=lambda options: Answer({"at": "noon"}))
    monkeypatch.setattr(jobs, "VERBS", (Verb(name="tasks", help="look", verbs=(inner,)),))

    assert manage("jobs", "tasks", "next", "--json").document == {"at": "noon"}
    assert manage("jobs", "tasks", "--json").code == 2
    assert manage("jobs", "next", "--json").document["error"]["code"] == "X_USAGE"
