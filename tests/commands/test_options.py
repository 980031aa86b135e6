"""Where the value of an option comes from, and what is said of a wrong one."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders import (
    Declarations,
    Ping,
    states,
    without_slots,
)
from tests.commands.manage import manage
from ultimate_jobs.conf import Settings
from ultimate_jobs.errors import ConfigInvalid
from ultimate_jobs.management import options
from ultimate_jobs.management.options import Effective, Option, effective
from ultimate_jobs.management.running import RELAY, WORKER
from ultimate_jobs.supervise.probes import At

SETTINGS = Settings(concurrency=3, queues=("mail",), drain_timeout=timedelta(seconds=7))
BY_NAME = {option.name: option for option in WORKER}

VALUES: dict[str, tuple[str, Any]] = {
    "queues": ("a, b", ["a", "b"]),
    "concurrency": ("1000", 1_000),
    "processes": ("256", 256),
    "roles": ("relay", ["relay"]),
    "name": ("pod-0", "pod-0"),
    "drain": ("yes", True),
    "max_jobs": ("500", 500),
    "max_memory": ("512M", 512 * 1024**2),
    "max_lifetime": ("1h30m", timedelta(minutes=90)),
    "shutdown_timeout": ("45", timedelta(seconds=45)),
    "reload": ("off", False),
    "health": ("0.0.0.0:8080", At("0.0.0.0", 8080)),  # noqa: S104 - what an orchestrator needs
}


def found(given: dict[str, Any], **environment: str) -> dict[str, Effective]:
    return effective(WORKER, given, SETTINGS, environment)


def parsed(*words: str) -> dict[str, Any]:
    parser = ArgumentParser()
    for option in WORKER:
        option.add_to(parser)
    return vars(parser.parse_args(words))


def test_every_option_of_the_worker_is_tried_here() -> None:
    assert set(VALUES) == set(BY_NAME)


@pytest.mark.parametrize("name", VALUES)
def test_every_option_is_read_from_its_variable(name: str) -> None:
    text, value = VALUES[name]
    variable = "JOBS_" + BY_NAME[name].flag.removeprefix("--").replace("-", "_").upper()

    assert found({}, **{variable: text})[name] == Effective(value, variable)


@pytest.mark.parametrize("name", VALUES)
def test_a_flag_goes_before_the_environment(name: str) -> None:
    option = BY_NAME[name]
    text, value = VALUES[name]
    if option.read is options.yes_or_no:
        words = [option.flag if value else option.flag.replace("--", "--no-")]
        others = "no" if value else "yes"
    else:
        words, others = [option.flag, text], "1"

    said = found(parsed(*words), **{option.variables[0]: others})[name]

    assert said == Effective(value, option.flag)


def test_without_a_flag_or_a_variable_the_setting_is_taken() -> None:
    said = found(parsed())

    assert said["queues"] == Effective(("mail",), "QUEUES")
    assert said["concurrency"] == Effective(3, "CONCURRENCY")
    assert said["shutdown_timeout"] == Effective(timedelta(seconds=7), "DRAIN_TIMEOUT")
    assert said["processes"] == Effective(1, "default")
    assert said["health"] == Effective(None, "default")
    assert said["drain"] == Effective(None, "default")


def test_the_older_name_of_a_variable_is_read_after_the_own_one() -> None:
    assert found({}, WORKER_QUEUES="a")["queues"] == Effective(["a"], "WORKER_QUEUES")
    both = found({}, WORKER_QUEUES="a", JOBS_QUEUES="b")
    assert both["queues"] == Effective(["b"], "JOBS_QUEUES")


@pytest.mark.parametrize("nothing", ["", "  ", " , ,"])
def test_an_empty_variable_is_not_set(nothing: str) -> None:
    said = found({}, JOBS_CONCURRENCY=nothing, JOBS_QUEUES=nothing, WORKER_QUEUES=nothing)

    assert said["concurrency"] == Effective(3, "CONCURRENCY")
    assert said["queues"] == Effective(("mail",), "QUEUES")


@pytest.mark.parametrize(
    ("variable", "text", "why"),
    [
        ("JOBS_CONCURRENCY", "many", "'many' is no whole number from 1"),
        ("JOBS_CONCURRENCY", "1001", "'1001' is more than 1,000"),
        ("JOBS_PROCESSES", "257", "'257' is more than 256"),
        ("JOBS_WITH", "cook", "takes relay, scheduler; not cook"),
        ("JOBS_MAX_JOBS", "0", "'0' is no whole number from 1"),
        ("JOBS_MAX_MEMORY", "lots", "'lots' is no size such as 512M or 2G"),
        ("JOBS_MAX_LIFETIME", "1 day", "'1 day' must read like"),
        ("JOBS_SHUTDOWN_TIMEOUT", "0s", "'0s' must be longer than zero"),
        ("JOBS_RELOAD", "maybe", "'maybe' is none of 1, true, yes, on, 0, false, no, off"),
        ("JOBS_HEALTH", "70000", "'70000' must be a port up to 65535"),
        ("JOBS_QUEUES", "q" * 201, "a queue name must be"),
        ("WORKER_QUEUES", "q" * 201, "a queue name must be"),
        ("JOBS_QUEUES", "a,mail=0", "'mail=0': '0' is no whole number from 1"),
        ("JOBS_QUEUES", "mail=", "'mail=': '' is no whole number from 1"),
        ("JOBS_QUEUES", "mail=two", "'mail=two': 'two' is no whole number from 1"),
        ("JOBS_QUEUES", "mail=2=3", "'mail=2=3': '2=3' is no whole number from 1"),
        ("JOBS_QUEUES", "mail=1001", "'mail=1001': '1001' is more than 1,000"),
        ("WORKER_QUEUES", "=2", "'=2': a queue name must be"),
        ("JOBS_QUEUES", "mail=2,mail=3", "'mail=3' gives the queue another part than before"),
    ],
)
def test_a_wrong_variable_is_named_and_exits_2(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, why: str
) -> None:
    monkeypatch.setenv(variable, text)

    answer = manage("jobs_worker", "--check")

    assert (answer.code, answer.out) == (2, "")
    assert f"X_CONFIG_INVALID: {variable}: {why}" in answer.err


@pytest.mark.parametrize(
    ("text", "names", "parts"),
    [
        ("a,b", ["a", "b"], {}),
        ("a,mail=2", ["a", "mail"], {"mail": 2}),
        (" mail = 2 , b=1000 ", ["mail", "b"], {"mail": 2, "b": 1_000}),
        ("mail=2,a,mail,mail=2", ["mail", "a"], {"mail": 2}),
        ("mail,mail=2", ["mail"], {"mail": 2}),
    ],
)
def test_queues_may_have_a_part_of_the_bodies(
    text: str, names: list[str], parts: dict[str, int]
) -> None:
    found = options.queues(text)

    assert found == names
    assert found.parts == parts


def test_a_part_that_is_said_goes_before_the_setting_and_leaves_the_others() -> None:
    settings = Settings(queue_concurrency={"mail": 5, "slow": 1})

    assert options.parts_of_queues(options.queues("a=3,mail=2"), settings) == {
        "mail": 2,
        "slow": 1,
        "a": 3,
    }
    assert options.parts_of_queues(("a", "mail"), settings) == {"mail": 5, "slow": 1}


def test_a_wrong_part_on_the_command_line_is_named_and_exits_2() -> None:
    with pytest.raises(SystemExit) as ended:
        parsed("--queues", "a,mail=0")

    assert ended.value.code == 2


def test_a_wrong_variable_does_not_matter_where_a_flag_was_given() -> None:
    assert found({"concurrency": 5}, JOBS_CONCURRENCY="many")["concurrency"].value == 5


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("2k", 2048), ("512M", 512 * 1024**2), ("2G", 2 * 1024**3)],
)
def test_sizes(text: str, size: int) -> None:
    assert options.size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1M", "0", "1.5G", "1T", "512MB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is no size such as 512M or 2G"):
        options.size(text)


@pytest.mark.parametrize("option", [*WORKER, RELAY[0]], ids=lambda option: option.help)
def test_the_help_names_every_way_to_give_a_value(option: Option) -> None:
    parser = ArgumentParser(prog="manage.py")
    option.add_to(parser)
    said = parser.format_help()

    ways = [*option.variables, *([option.setting.upper()] if option.setting else [])]
    assert f"({', '.join(ways)})" in " ".join(said.split())


def test_every_origin_can_be_shown() -> None:
    """What a command that prints the configuration needs."""
    said = found({"concurrency": 5}, JOBS_HEALTH="8080")

    shown = json.dumps({name: [str(one.value), one.origin] for name, one in said.items()})

    assert '["5", "--concurrency"]' in shown
    assert "JOBS_HEALTH" in shown


# What commands do with them


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--concurrency", "1001"], "argument --concurrency: '1001' is more than 1,000"),
        (["--processes", "257"], "argument --processes: '257' is more than 256"),
        (["--processes", "0"], "argument --processes: '0' is no whole number from 1"),
        (["--queues", "q" * 201], "argument --queues: a queue name must be"),
        (["--max-memory", "x"], "argument --max-memory: 'x' is no size"),
        (["--health", "/"], "argument --health: '/' must be a port, HOST:PORT, or the path"),
        (["--drain", "--processes", "2"], "--drain and --processes were given together"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value)[:30],
)
def test_a_wrong_flag_is_named_and_exits_2(words: list[str], why: str) -> None:
    answer = manage("jobs_worker", *words)

    assert (answer.code, answer.out) == (2, "")
    assert why in answer.err


@pytest.mark.django_db(transaction=True)
def test_a_check_starts_nothing_and_says_that_nothing_is_wrong(declare: Declarations) -> None:
    declare().enqueue(Ping("a"))

    answer = manage("jobs_worker", "--check", "--processes", "2", "--with", "relay")

    assert (answer.code, answer.out) == (0, "nothing is wrong\n")
    assert states() == {"ready": 1}


def test_a_check_finds_what_the_worker_would_refuse(declare: Declarations) -> None:
    declare(concurrency=2)

    with without_slots():
        answer = manage("jobs_worker", "--check")

    assert answer.code == 2
    assert "X_JOB_CONCURRENCY_UNENFORCEABLE" in answer.err


@pytest.mark.django_db(transaction=True)
def test_the_environment_drains_and_draining_ignores_a_reload(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare().enqueue(Ping("a"))
    monkeypatch.setenv("JOBS_DRAIN", "1")

    answer = manage("jobs_worker", "--reload")

    assert (answer.code, states()) == (0, {"done": 1})


@pytest.mark.django_db(transaction=True)
def test_a_drain_shows_its_health_while_it_lasts(declare: Declarations, tmp_path: Path) -> None:
    path = tmp_path / "health"
    ping = declare(lambda run: json.loads(path.read_text("utf-8"))["live"])
    ping.enqueue(Ping("a"))

    assert manage("jobs_worker", "--drain", "--health", str(path)).code == 0
    assert (states(), path.exists()) == ({"done": 1}, False)


@pytest.mark.parametrize("command", ["jobs_worker", "jobs_relay"])
@pytest.mark.django_db(transaction=True)
def test_a_health_that_cannot_be_shown_is_refused(command: str, tmp_path: Path) -> None:
    answer = manage(command, "--health", str(tmp_path / "nowhere" / "health"))

    assert answer.code == 2
    assert "X_CONFIG_INVALID: --health: cannot write" in answer.err


def test_a_mistake_in_the_environment_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        found({}, JOBS_MAX_JOBS="-1")

    assert caught.value.fix == "Set JOBS_MAX_JOBS to what --max-jobs takes."
