"""The examples of the page about Django's tasks run, and its tables are whole."""

from __future__ import annotations

import inspect
import re
import sys
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.test import override_settings

from tests.builders import work_off
from tests.tasks import functions
from tests.tasks.test_options import decorator_takes_them
from ultimate_jobs.models import Job
from ultimate_jobs.tasks import task_options
from ultimate_jobs.tasks.checks import KNOWN_OPTIONS
from ultimate_jobs.tasks.framework import TaskResultStatus, task_backends
from ultimate_jobs.tasks.results import STATUSES

PAGE = (Path(__file__).parents[2] / "docs" / "django-tasks.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def example() -> Iterator[ModuleType]:
    """A module in which the examples run, one after the other."""
    module = ModuleType("docs_django_tasks")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def run(module: ModuleType, holds: str) -> Any:
    """Run the one example that holds these words."""
    (text,) = (one for one in EXAMPLES if holds in one)
    if functions.MODULE != "django.tasks":
        text = text.replace("from django.tasks import", f"from {functions.MODULE} import")
    exec(compile(text, module.__name__, "exec", dont_inherit=True), vars(module))  # noqa: S102
    return module


@pytest.mark.django_db(transaction=True)
def test_the_task_of_the_page_runs(
    example: ModuleType, capsys: pytest.CaptureFixture[str], settings: Any
) -> None:
    settings.TASKS = run(example, "JobsBackend").TASKS
    run(example, "def remind")
    module = run(example, "remind.enqueue")
    work_off()
    run(example, "remind.get_result")

    assert module.found.return_value == "o-1"
    assert Job.objects.get().priority == 10
    assert capsys.readouterr().out.split() == ["SUCCESSFUL", "1", "True"]


@decorator_takes_them
@pytest.mark.django_db(transaction=True)
def test_the_options_of_the_page_are_taken(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    run(example, "def remind")
    mirror = run(example, "def mirror").mirror

    assert mirror.enqueue(1).id == mirror.enqueue(1).id
    work_off()

    assert capsys.readouterr().out == "mirroring 1\n"


@pytest.mark.django_db(transaction=True)
def test_the_options_below_the_decorator_are_taken(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    run(example, "def remind")
    export = run(example, "def export").export
    fetch = run(example, "def fetch").fetch

    assert export.enqueue(1).id == export.enqueue(1, note="again").id
    result = fetch.enqueue("https://example.com")
    work_off()
    result.refresh()

    assert capsys.readouterr().out == "exporting 1\n"
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)


@pytest.mark.parametrize("stock", ["ImmediateBackend", "DummyBackend"])
def test_the_doubles_of_the_page_exist(stock: str) -> None:
    (line,) = re.findall(rf"^TASKS = (.+{stock}.+)$", PAGE, re.MULTILINE)

    with override_settings(TASKS=literal_eval(line)):
        assert type(task_backends["default"]).__name__ == stock


def test_every_option_is_on_the_page() -> None:
    names = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## Results")[0], re.MULTILINE)

    assert names == list(inspect.signature(task_options).parameters)
    for option in KNOWN_OPTIONS:
        assert f'`OPTIONS["{option}"]`' in PAGE


def test_every_status_is_on_the_page() -> None:
    shown = dict(re.findall(r"^\| (.*`\w+`.*) \| `([A-Z]+)`", PAGE, re.MULTILINE))

    for state, status in STATUSES.items():
        (words,) = [words for words, said in shown.items() if said == status.value]
        assert f"`{state.value}`" in words
