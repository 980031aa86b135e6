"""Names: where they come from, and that each belongs to one job."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from django.apps import AppConfig, apps

from testproject.shop.jobs import checkout
from tests.builders import Declarations, Ping, declared, only_these
from ultimate_jobs import NO_TENANT, Retry, Run, job
from ultimate_jobs.definitions import registry as module
from ultimate_jobs.definitions.registry import Registry, autodiscover, registry, tasks
from ultimate_jobs.errors import JobDuplicate


def body(run: Run[Ping]) -> None:
    """Do nothing."""


# Names


def test_a_job_of_an_app_is_named_after_the_app_and_the_function() -> None:
    assert checkout.name == "shop.checkout"
    assert registry.get("shop.checkout") is checkout


def test_a_job_outside_every_app_is_named_after_its_module() -> None:
    with declared(body, name=None) as handle:
        assert handle.name == f"{__name__}.body"


def test_a_name_that_was_given_is_kept_whatever_the_function_is_called() -> None:
    with declared(body, name="billing.charge") as handle:
        assert handle.name == "billing.charge"
        assert handle.__name__ == "body"


# One name, one job


def test_two_jobs_with_one_name_are_refused_and_the_first_stays() -> None:
    with declared(body, name="tests.taken") as first:
        with pytest.raises(JobDuplicate) as caught:
            declared(body, name="tests.taken").__enter__()
        assert registry.get("tests.taken") is first

    assert caught.value.code == "X_JOB_DUPLICATE"
    assert "'tests.taken'" in caught.value.cause
    assert __name__ in caught.value.cause


def test_the_same_job_registered_again_changes_nothing() -> None:
    with declared(body, name="tests.again") as handle:
        before = len(registry)
        registry.add(handle)
        assert len(registry) == before


def test_one_function_under_two_names_is_two_jobs() -> None:
    with declared(body, name="tests.one") as one, declared(body, name="tests.two") as two:
        assert one is not two
        assert {"tests.one", "tests.two"} <= set(registry.names())


def test_a_job_is_forgotten_by_identity_not_by_name() -> None:
    with declared(body, name="tests.kept") as kept:
        namesake = Registry()
        with pytest.raises(JobDuplicate):
            job(
                input=Ping,
                tenant=NO_TENANT,
                idempotency_key=lambda i: i.key,
                retry=Retry(),
                name="tests.kept",
            )(body)
        namesake.discard(kept)
        assert registry.get("tests.kept") is kept


def test_jobs_are_listed_by_code_points_not_by_a_language(declare: Declarations) -> None:
    names = ["b", "B", "a", "é", "Z", "_", "b.a", "b-a", "10", "9"]
    handles = [declare(name=name) for name in names]

    with only_these(*handles):
        assert registry.names() == ["10", "9", "B", "Z", "_", "a", "b", "b-a", "b.a", "é"]
        assert [handle.name for handle in registry] == registry.names()
        assert len(registry) == len(names)


def test_an_unknown_name_is_answered_with_nothing() -> None:
    assert registry.get("tests.nobody") is None


# Discovery


@pytest.fixture
def an_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install an app whose ``jobs`` module the test writes."""
    package = tmp_path / "parcels"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    installed = AppConfig.create("parcels")
    installed.apps = apps
    monkeypatch.setitem(apps.app_configs, "parcels", installed)
    monkeypatch.setattr(module, "refused", [])
    before = set(registry.names())
    yield package
    for handle in [h for h in registry if h.name not in before]:
        registry.discard(handle)
    for scheduled in [t for t in tasks if t.name.startswith("parcels.")]:
        tasks.discard(scheduled)
    for name in ("parcels", "parcels.jobs"):
        sys.modules.pop(name, None)


DECLARES = """
from __future__ import annotations
from ultimate_jobs import NO_TENANT, Retry, Run, job

@job(input=int, tenant=NO_TENANT, idempotency_key=str, retry=Retry(){more})
def send(run: Run[int]) -> None: ...
"""


def test_the_jobs_module_of_an_installed_app_is_found(an_app: Path) -> None:
    (an_app / "jobs.py").write_text(DECLARES.format(more=""))

    autodiscover()

    assert "parcels.send" in registry.names()
    assert module.refused == []


SCHEDULES = """
from ultimate_jobs import task

@task(cron="0 2 * * *", tz="{zone}")
def nightly(occurrence): return []
"""


def test_the_tasks_of_a_jobs_module_are_found(an_app: Path) -> None:
    (an_app / "jobs.py").write_text(SCHEDULES.format(zone="UTC"))

    autodiscover()

    found = tasks.get("parcels.nightly")
    assert found is not None
    assert found.tz == "UTC"
    assert module.refused == []


def test_a_refused_task_is_kept_for_the_checks(an_app: Path) -> None:
    (an_app / "jobs.py").write_text(SCHEDULES.format(zone="localtime"))

    autodiscover()

    assert [error.code for error in module.refused] == ["X_INVARIANT"]
    assert "parcels.nightly" in module.refused[0].cause
    assert tasks.get("parcels.nightly") is None


def test_an_app_without_a_jobs_module_is_passed_over(an_app: Path) -> None:
    autodiscover()

    assert not [name for name in registry.names() if name.startswith("parcels.")]


def test_what_looks_like_a_job_in_a_module_is_not_one(an_app: Path) -> None:
    (an_app / "jobs.py").write_text(
        "class Job:\n    name = 'parcels.fake'\n    spec = None\n\nfake = Job()\nnumber = 7\n"
    )

    autodiscover()

    assert "parcels.fake" not in registry.names()


def test_a_refused_declaration_is_kept_for_the_checks_and_the_others_are_still_found(
    an_app: Path,
) -> None:
    (an_app / "jobs.py").write_text(DECLARES.format(more=", timeout=-1"))

    autodiscover()

    assert [error.code for error in module.refused] == ["X_JOB_DECLARATION_INVALID"]
    assert "parcels.send" in module.refused[0].cause
    assert registry.get("shop.checkout") is checkout


def test_an_error_of_the_module_itself_is_not_swallowed(an_app: Path) -> None:
    (an_app / "jobs.py").write_text("1 / 0\n")

    with pytest.raises(ZeroDivisionError):
        autodiscover()


def test_a_module_whose_import_failed_halfway_can_be_imported_once_more(an_app: Path) -> None:
    (an_app / "jobs.py").write_text(DECLARES.format(more="") + "\nimport no_such_module\n")
    with pytest.raises(ModuleNotFoundError):
        autodiscover()
    half = registry.get("parcels.send")

    (an_app / "jobs.py").write_text(DECLARES.format(more=", queue='mail'"))
    _forget_bytecode(an_app)
    autodiscover()

    again = registry.get("parcels.send")
    assert half is not None
    assert again is not None
    assert again is not half
    assert again.queue == "mail"


def _forget_bytecode(package: Path) -> None:
    for cached in package.glob("__pycache__/jobs.*"):
        cached.unlink()
    assert not isinstance(sys.modules.get("parcels.jobs"), ModuleType)
