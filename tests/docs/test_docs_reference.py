"""The reference pages say what the code says."""

from __future__ import annotations

import ast
import inspect
import re
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import load_command_class
from django.core.management.base import BaseCommand
from django.db.models.functions import Now

from testproject.demo.audit import Audit
from testproject.shop import orders
from tests.builders import a_job, a_worker
from tests.commands.manage import manage
from ultimate_jobs import AsyncRun, Ending, Job, Retry, Run, conf, errors, job
from ultimate_jobs.conf import Settings
from ultimate_jobs.core.durations import duration
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.replay import StepStatus
from ultimate_jobs.core.states import LIVE, MOVES, JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.management.commands.jobs import VERBS
from ultimate_jobs.management.filters import FILTERS
from ultimate_jobs.management.running import RELAY, SCHEDULER, WORKER
from ultimate_jobs.management.verb import Verb
from ultimate_jobs.models import Counter, JobStep, OutboxEntry
from ultimate_jobs.operate import inspection, tasks
from ultimate_jobs.operate.overview import counts, outbox_backlog, queue_stats
from ultimate_jobs.operate.pauses import pause_queue
from ultimate_jobs.operate.redaction import Mask
from ultimate_jobs.supervise.reloading import WATCHED

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "ultimate_jobs"
AN_INSTANT = datetime(2030, 1, 1, tzinfo=UTC)


def page(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """Answer what stands under a heading, up to the next one of its level or above."""
    level = heading.partition(" ")[0]
    _, found, rest = f"\n{text}".partition(f"\n{heading}\n")
    assert found, f"there is no {heading!r}"
    return re.split(rf"\n#{{1,{len(level)}}} ", rest)[0]


def rows(text: str) -> list[list[str]]:
    """Answer the rows of the tables in a text, without their headings."""
    found = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    ruled = [n for n, row in enumerate(found) if set("".join(row)) <= {"-", ":"} and row[0]]
    return [row for n, row in enumerate(found) if n not in ruled and n + 1 not in ruled]


def spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))


# Errors


def error_classes() -> list[type[errors.JobsError]]:
    named = vars(errors).values()
    return [kind for kind in named if isinstance(kind, type) and issubclass(kind, errors.JobsError)]


def test_every_error_is_documented_and_every_documented_error_exists() -> None:
    declared: dict[str, tuple[dict[str, str], list[str]]] = {}
    for kind in error_classes():
        names, _ = declared.setdefault(kind.code, ({}, []))
        names[kind.__name__] = kind.retry or "—"
    for names, classes in declared.values():
        # One class stands for all names; where they differ there is one for each, in their order.
        classes.extend(
            list(names.values()) if len(set(names.values())) > 1 else [*names.values()][:1]
        )
    text = page("docs/errors.md")
    documented = {}
    for code in re.findall(r"^## (X_\w+)$", text, re.MULTILINE):
        line = section(text, f"## {code}").strip().splitlines()[0]
        named, _, retry = line.partition(" · retry class: ")
        documented[code] = (spans(named), [one.strip("`") for one in retry.split(", ")])

    assert documented == {
        code: (list(names), classes) for code, (names, classes) in declared.items()
    }


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_an_error_points_to_its_place_in_the_page(kind: type[errors.JobsError]) -> None:
    path, _, anchor = kind.__new__(kind).docs.partition("#")

    assert re.search(rf"^## {anchor}$", page(path), re.MULTILINE | re.IGNORECASE)


def test_every_error_says_what_it_means_and_what_to_do() -> None:
    text = page("docs/errors.md")
    for code in {kind.code for kind in error_classes()} - {"X_JOBS"}:
        assert "*What to do:*" in section(text, f"## {code}"), code


# Settings


def documented_settings() -> dict[str, list[str]]:
    text = page("docs/settings.md").partition("## Environment")[0]
    return {spans(row[0])[0]: row for row in rows(text)}


def test_every_setting_is_documented_with_its_default() -> None:
    documented = {
        key: ast.literal_eval(spans(row[2])[0]) for key, row in documented_settings().items()
    }

    assert set(documented) == {field.name.upper() for field in fields(Settings)}
    assert conf.read(documented) == (Settings(), [])


def test_spans_of_time_are_called_durations() -> None:
    for field in fields(Settings):
        is_span = "timedelta" in str(field.type)
        assert ("duration" in documented_settings()[field.name.upper()][1]) == is_span


def test_the_documented_limits_are_the_limits() -> None:
    for key, row in documented_settings().items():
        if limits := re.fullmatch(r"([\d,]+) to ([\d,]+)", row[1]):
            least, most = (int(limit.replace(",", "")) for limit in limits.groups())
            assert conf.read({key: least})[1] == conf.read({key: most})[1] == []
            assert conf.read({key: least - 1})[1]
            assert conf.read({key: most + 1})[1]


def test_every_environment_variable_is_documented() -> None:
    documented = {
        spans(row[0])[0] for row in rows(section(page("docs/settings.md"), "## Environment"))
    }

    assert documented == {
        WATCHED,
        *(variable for option in (*WORKER, *RELAY, *SCHEDULER) for variable in option.variables),
    }
    read = {path.stem for path in PACKAGE.rglob("*.py") if "os.environ" in path.read_text("utf-8")}
    assert read == {"options", "reloading"}


def test_every_system_check_is_documented() -> None:
    documented = {
        spans(row[0])[0] for row in rows(section(page("docs/settings.md"), "## System checks"))
    }

    assert documented == set(re.findall(r'id="(ultimate_jobs\.\w+)"', sources()))


# Commands


def options_of(parser: ArgumentParser) -> set[str]:
    own = {action.dest: action for action in parser._actions}
    for django in BaseCommand().create_parser("manage.py", "any")._actions:
        own.pop(django.dest, None)
    return {
        action.option_strings[0] if action.option_strings else dest
        for dest, action in own.items()
        if not isinstance(action, _SubParsersAction)
    }


def parser_of(command: str, verb: str | None) -> ArgumentParser:
    parser: Any = load_command_class("ultimate_jobs", command).create_parser("manage.py", command)
    for word in (verb or "").split():
        (verbs,) = (a for a in parser._actions if isinstance(a, _SubParsersAction))
        parser = verbs.choices[word]
    assert isinstance(parser, ArgumentParser)
    return parser


def verbs_of(parser: ArgumentParser) -> Iterator[str]:
    """Name the verbs of a command, with the words that lead to them."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for word, inner in action.choices.items():
                below = list(verbs_of(inner))
                yield from [f"{word} {verb}" for verb in below] or [word]


def spelled(verb: Verb) -> list[str]:
    """Answer how a verb is typed, or those below it."""
    return [f"{verb.name} {below.name}" for below in verb.verbs] or [verb.name]


COMMANDS = [
    ("jobs_worker", None),
    ("jobs_relay", None),
    ("jobs_scheduler", None),
    *(("jobs", name) for verb in VERBS for name in spelled(verb)),
]
FILTER_OPTIONS = {f"--{name.replace('_', '-')}" for name in FILTERS}


@pytest.mark.parametrize(("command", "verb"), COMMANDS)
def test_every_option_is_documented(command: str, verb: str | None) -> None:
    heading = f"## {command} {verb}" if verb else f"## {command}"
    text = section(page("docs/commands.md"), heading)
    table = text.partition("\nWith `--json`, an object")[0]
    documented = {
        spans(row[0])[0]
        for row in rows(table.partition("\nWith `--json`:")[0])
        if row[0].startswith(("`--", "`id", "`step", "`name", "`queue"))
    }
    wanted = options_of(parser_of(command, verb))
    if "(#which-jobs)" in table:
        assert wanted >= FILTER_OPTIONS
        wanted -= FILTER_OPTIONS

    assert documented == wanted
    usage = text.partition("```console")[2].partition("```")[0]
    for option in wanted:
        assert (option if option.startswith("--") else option.upper()) in usage


def test_every_filter_is_documented() -> None:
    text = section(page("docs/commands.md"), "## Which jobs")

    assert {spans(row[0])[0] for row in rows(text)} == FILTER_OPTIONS


DOCUMENTS = {
    "dead": [],
    "outbox": [],
    "describe": [],
    "pause": ["mail"],
    "resume": ["mail"],
    "stats": [],
    "workers": [],
    "counters": ["--buckets"],
    "health": [],
    "watch": [],
    "config": [],
    "list": [],
    "purge": ["--yes"],
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("verb", DOCUMENTS)
def test_the_documented_keys_are_the_keys_of_the_document(verb: str) -> None:
    text = section(page("docs/commands.md"), f"## jobs {verb}")
    documented = {spans(row[0])[0] for row in rows(text.partition("\nWith `--json`:")[2])}

    assert set(manage("jobs", verb, *DOCUMENTS[verb], "--json").document) == documented


@pytest.mark.django_db(transaction=True)
def test_the_documented_keys_of_a_bulk_verb_are_the_keys_of_its_document() -> None:
    text = section(page("docs/commands.md"), "## Verbs over many jobs")

    document = manage("jobs", "retry", "--all", "--dry-run", "--json").document

    assert {spans(row[0])[0] for row in rows(text)} == set(document)


@pytest.mark.django_db(transaction=True)
def test_the_documented_keys_of_a_statement_are_those_of_its_documents() -> None:
    text = section(page("docs/commands.md"), "## jobs sql").partition("\nWith `--json`:")[2]
    shown = [manage("jobs", "sql", *name, "--json").document for name in ([], ["claim"])]

    assert {spans(row[0])[0] for row in rows(text)} == {key for one in shown for key in one}


@pytest.mark.django_db(transaction=True)
def test_the_documented_keys_of_the_parts_are_their_keys() -> None:
    a_job(JobState.DEAD, last_error="boom")
    a_worker()
    pause_queue("mail")
    OutboxEntry.objects.create(
        id=new_id(), run_id=new_id(), name="a", input={}, idempotency_key="k"
    )
    Counter.objects.create(bucket=AN_INSTANT, name="a", done=1)
    Counter.objects.update(bucket=Now())

    for verb, key in (
        ("dead", "groups"),
        ("dead", "jobs"),
        ("outbox", "rows"),
        ("describe", "jobs"),
        ("pause", "pauses"),
        ("stats", "queues"),
        ("workers", "workers"),
        ("counters", "jobs"),
        ("counters", "buckets"),
        ("config", "settings"),
    ):
        text = section(page("docs/commands.md"), f"## jobs {verb}")
        (row,) = [row for row in rows(text) if row[0] == f"`{key}`"]
        document = manage("jobs", verb, *DOCUMENTS[verb], "--json").document
        said = spans(row[1].partition(":")[2].partition(" (")[0])
        assert said == list(document[key][0]), (verb, key)


def test_every_command_and_verb_is_documented() -> None:
    files = {path.stem for path in (PACKAGE / "management/commands").glob("[a-z]*.py")}

    assert {command for command, _ in COMMANDS} == files
    assert {verb for _, verb in COMMANDS if verb} == set(verbs_of(parser_of("jobs", None)))


@pytest.mark.django_db(transaction=True)
def test_the_documented_keys_are_the_keys_of_the_json() -> None:
    text = page("docs/commands.md")
    keys: dict[str, set[str]] = {"list": set(), "show": set(), "staged": set()}
    for row in rows(section(text, "## jobs show")):
        if len(row) == 3 and row[1].startswith(("list", "show")):
            for where in row[1].split(", "):
                keys[where].add(spans(row[0])[0])
    _, queued = orders.place("docs-1", Decimal("1.00"))

    assert set(inspection.show_job(str(queued.id))) == keys["staged"]
    get_driver().outbox.relay(10)
    assert set(inspection.show_job(str(queued.id))) == keys["show"]
    (listed,) = inspection.list_jobs(inspection.Filter())
    assert set(listed) == keys["list"]
    shown = next(row for row in rows(section(text, "## jobs list")) if row[0] == "`counts`")
    assert spans(shown[1]) == list(counts(queue_stats(), outbox_backlog()))


def test_the_documented_keys_of_a_step_are_the_keys_of_the_json() -> None:
    text = section(page("docs/commands.md"), "## jobs show").partition("| Key of a step |")[2]

    step = JobStep(name="charge", status=StepStatus.COMPLETED, attempts=1, started_at=AN_INSTANT)

    assert [
        spans(line.split("|")[1])[0] for line in text.splitlines() if line.startswith("| `")
    ] == list(inspection.step_trace(step, Mask.of("unknown", None)))


@pytest.mark.django_db
def test_the_documented_keys_of_a_task_are_the_keys_of_the_json() -> None:
    text = section(page("docs/commands.md"), "## jobs tasks show").partition("an object")[2]
    documented = [key for row in rows(text) for key in spans(row[0])]

    assert documented == list(tasks.show_task("ultimate_jobs.purge"))


def test_every_log_event_is_documented() -> None:
    documented = [spans(row[0])[0] for row in rows(section(page("docs/logging.md"), "## Events"))]
    written = set(re.findall(r'"(jobs\.[a-z-]+\.[a-z-]+)"', sources()))

    assert len(documented) == len(set(documented))
    assert set(documented) == written


# States


def test_every_state_is_documented() -> None:
    before_moves = page("docs/states.md").partition("## Moves")[0]
    documented = {spans(row[0])[0]: row[1] for row in rows(before_moves)}

    assert documented == {
        state.value: "live" if state in LIVE else "terminal" for state in JobState
    }


def test_every_move_is_documented() -> None:
    documented = {
        spans(row[0])[0]: (set(spans(row[1])), set(spans(row[2])), row[3])
        for row in rows(section(page("docs/states.md"), "## Moves"))
    }

    assert documented == {
        verb.value: (
            {state.value for state in move.sources},
            {state.value for state in move.targets},
            "yes" if move.claim_fenced else "no",
        )
        for verb, move in MOVES.items()
    }


def test_every_status_of_a_step_is_documented() -> None:
    documented = [spans(row[0])[0] for row in rows(section(page("docs/states.md"), "## Steps"))]

    assert documented == [status.value for status in StepStatus]


def test_the_picture_shows_every_move() -> None:
    shown = {
        (source, target, verb)
        for source, target, verbs in re.findall(
            r"^    (\S+) --> (\w+): (.+)$", page("docs/states.md"), re.MULTILINE
        )
        for verb in verbs.split(", ")
    }

    assert shown == {
        (source, target.value, verb.value)
        for verb, move in MOVES.items()
        for source in ({state.value for state in move.sources} or {"[*]"})
        for target in move.targets
    }


def test_every_ending_is_documented() -> None:
    text = section(page("docs/states.md"), "## How a run ends")

    assert {ending.value for ending in Ending} <= set(spans(text))


# The pages for authors


def test_the_options_of_an_enqueue_are_documented() -> None:
    text = section(page("docs/writing-jobs.md"), "## Enqueue in the transaction that makes it true")
    documented = {name for row in rows(text) for name in spans(row[0])}
    takes = inspect.signature(Job.enqueue).parameters.values()

    assert documented == {p.name for p in takes if p.kind is p.KEYWORD_ONLY}


def test_the_fields_of_a_declaration_are_documented() -> None:
    text = section(page("docs/writing-jobs.md"), "## The declaration")

    assert [name for row in rows(text) for name in spans(row[0])] == list(
        inspect.signature(job).parameters
    )


def test_the_options_of_a_step_are_documented() -> None:
    documented = [
        spans(row[0])[0]
        for row in rows(page("docs/steps.md").partition("\n## ")[0])
        if "run." not in row[0]
    ]

    for kind in (Run, AsyncRun):
        takes = inspect.signature(kind.step).parameters.values()
        assert documented == [p.name for p in takes if p.kind is p.KEYWORD_ONLY]


def test_every_call_of_a_run_that_is_a_step_is_documented() -> None:
    table = "".join(row[0] for row in rows(page("docs/steps.md").partition("\n## ")[0]))
    own = {name for name, value in vars(Run).items() if inspect.isfunction(value)}

    assert set(re.findall(r"run\.(\w+)\(", table)) == {n for n in own if not n.startswith("_")}


def test_the_fields_of_a_retry_are_documented_with_their_defaults() -> None:
    text = section(page("docs/writing-jobs.md"), "## Retries")
    documented = {spans(row[0])[0]: row[1].strip("`") for row in rows(text)}
    words = {"on": True, "off": False}

    assert list(documented) == [field.name for field in fields(Retry)]
    for name, said in documented.items():
        default = getattr(Retry(), name)
        if name in {"delay", "max_delay"}:
            assert duration(said.replace(" ", "")) == default
        else:
            assert words.get(said, said) == (str(default) if type(default) is int else default)


def test_the_verdict_of_the_demo_is_documented() -> None:
    text = section(page("README.md"), "## Two commands")
    documented = {name for row in rows(text) for name in spans(row[0]) if "make" not in name}

    assert documented == {
        "sent",
        "worker_killed",
        "seconds",
        *(field.name for field in fields(Audit)),
    }
