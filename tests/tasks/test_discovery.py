"""Which tasks every process knows, and what the system checks say about a backend."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import CheckMessage

from tests.builders import work_off
from tests.tasks import functions
from tests.tasks.conftest import backends
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.tasks import discovery, known
from ultimate_jobs.tasks.framework import TaskResultStatus, task_backends

SOURCE = """
from django.contrib.auth.models import User
{imports}

@task
def count_people():
    return User.objects.count()
"""


@pytest.fixture
def make_module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a module with a task where ``import`` finds it."""

    def make(name: str) -> None:
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(SOURCE.format(imports=f"from {functions.MODULE} import task"), vars(module))  # noqa: S102

    return make


def messages(alias: str = "default") -> list[tuple[str, str]]:
    found: list[CheckMessage] = list(task_backends[alias].check())
    return [(str(one.id).rpartition(".")[2], one.msg) for one in found]


def test_every_task_is_in_the_registry_that_workers_claim_by() -> None:
    assert "tests.tasks.functions.noop" in registry.names()


@pytest.mark.django_db(transaction=True)
def test_a_task_from_any_module_is_claimed_by_a_worker_that_imported_it(
    make_module: Callable[[str], None],
) -> None:
    make_module("a_library.background")
    module: Any = sys.modules["a_library.background"]

    result = module.count_people.enqueue()
    work_off()
    result.refresh()

    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 0)


def test_the_modules_that_a_backend_names_are_imported(make_module: Callable[[str], None]) -> None:
    make_module("a_library.background")
    known.forget(known.known_as("a_library.background.count_people"))  # type: ignore[arg-type]

    discovery.autodiscover({"default": {"OPTIONS": {"modules": ["a_library.background"]}}})

    assert known.known_as("a_library.background.count_people") is not None


def test_a_module_that_cannot_be_imported_is_an_error() -> None:
    entry = {"OPTIONS": {"modules": ["no_such_library.tasks"]}}
    with backends(default=entry):
        discovery.autodiscover({"default": entry})
        try:
            ((_, text),) = [one for one in messages() if one[0] == "E006"]
        finally:
            discovery.unimportable.clear()

    assert "'no_such_library.tasks' cannot be imported" in text


def test_a_task_that_workers_may_not_know_is_a_warning() -> None:
    late = [text for code, text in messages() if code == "W004"]

    assert any("'tests.tasks.functions.noop'" in text for text in late)


@pytest.mark.parametrize(
    ("entry", "code", "text"),
    [
        ({"OPTIONS": {"max_attempt": 3}}, "E006", "did you mean 'max_attempts'"),
        ({"OPTIONS": {"max_attempts": 0}}, "E006", "a whole number from 1"),
        ({"OPTIONS": {"modules": "a.b"}}, "E006", "must be a list"),
        ({"QUEUES": ["default", "bad\x00name"]}, "E006", "QUEUES"),
        ({"QUEUES": ["default", "mail"]}, "W002", "mail"),
    ],
    ids=["unknown", "attempts", "modules", "queue", "unserved"],
)
def test_a_mistake_in_an_entry_is_found(entry: dict[str, Any], code: str, text: str) -> None:
    with backends(default=entry):
        found = [message for found, message in messages() if found == code]

    assert any(text in message for message in found)


def test_an_entry_without_mistakes_is_silent() -> None:
    assert [one for one in messages() if one[0] != "W004"] == []


def test_another_database_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.DATABASES, "reports", {})

    ((_, text),) = [one for one in messages() if one[0] == "W003"]

    assert "transaction of reports alone is refused" in text
