"""A project of its own, with two databases, runs its tests with the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.builders import settings_of
from ultimate_jobs import testing
from ultimate_jobs.testing import plugin

ROOT = Path(__file__).resolve().parent.parent.parent

OPTIONS = (
    *("-q", "--reuse-db", "--ds", "settings"),
    *("-p", "pytest_django.plugin", "-p", "ultimate_jobs.testing.plugin"),
)

SETTINGS = """
SECRET_KEY = "a test project has no secrets"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "ultimate_jobs"]
ULTIMATE_JOBS = {{"DATABASE": "jobs"}}
DATABASES = {{
    "default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    "jobs": {ours!r},
}}
DATABASE_ROUTERS = ["project.Router"]
"""

PROJECT = """
from contextlib import suppress
from dataclasses import dataclass
from django.db import IntegrityError, transaction
from ultimate_jobs import NO_TENANT, Retry, job


class Router:
    def db_for_read(self, model, **hints):
        return "jobs" if model._meta.app_label == "ultimate_jobs" else "default"

    db_for_write = db_for_read

    def allow_migrate(self, db, app_label, **hints):
        return (db == "jobs") == (app_label == "ultimate_jobs")


@dataclass
class Ask:
    number: int


def declare():
    @job(
        name="project.double",
        input=Ask,
        tenant=NO_TENANT,
        idempotency_key=lambda i: str(i.number),
        retry=Retry(attempts=1),
    )
    def double(run):
        run.step("elsewhere", elsewhere)
        run.sleep("1h")
        return run.step("double", lambda: 2 * run.input.number)

    return double


def elsewhere():
    from django.contrib.contenttypes.models import ContentType

    def add(model):
        ContentType.objects.create(app_label="project", model=model)

    add("by itself")
    with suppress(IntegrityError):
        add("by itself")
    with suppress(IntegrityError), transaction.atomic():
        add("undone")
        add("by itself")
    with transaction.atomic():
        add("in a block")
    types = ContentType.objects.filter(app_label="project").order_by("model")
    return list(types.values_list("model", flat=True))
"""

TESTS = """
import pytest
from django.db import connections
from ultimate_jobs.testing import JobsTestCase

BOTH = ["default", "jobs"]


@pytest.fixture(scope="module")
def double():
    import project
    from ultimate_jobs.definitions.registry import registry

    declared = project.declare()
    yield declared
    registry.discard(declared)


def work(jobs, double):
    from project import Ask

    trace = jobs.run_jobs(double, Ask(3))
    jobs.clock.advance("1h")
    jobs.run_jobs()
    assert (trace.state, trace.result) == ("done", 6)
    assert trace.steps["elsewhere"].output == ["by itself", "in a block"]


@pytest.mark.django_db(databases=BOTH)
def test_in_a_transaction(jobs, double):
    work(jobs, double)
    assert connections["jobs"].in_atomic_block


@pytest.mark.django_db(databases=BOTH, transaction=True)
def test_without_a_transaction(jobs, double):
    work(jobs, double)
    assert not connections["jobs"].in_atomic_block


@pytest.mark.django_db(databases=BOTH)
def test_nothing_is_left_of_another_test(jobs):
    assert jobs.depth() == 0


class Case(JobsTestCase):
    databases = set(BOTH)

    @pytest.fixture(autouse=True)
    def declared(self, double):
        self.double = double

    def test_in_a_case(self):
        work(self.jobs, self.double)
"""


@pytest.mark.slow
@pytest.mark.scenario
@pytest.mark.django_db(transaction=True)
def test_a_project_tests_its_jobs_with_the_plugin(tmp_path: Path) -> None:
    ours = settings_of()
    ours = {key: ours[key] for key in ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")} | {
        "TEST": {"NAME": ours["NAME"]}
    }
    (tmp_path / "settings.py").write_text(SETTINGS.format(ours=ours))
    (tmp_path / "project.py").write_text(PROJECT)
    (tmp_path / "test_project.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 passed" in ended.stdout


def test_the_plugin_loads_nothing_until_it_is_asked() -> None:
    code = (
        "import sys; import ultimate_jobs.testing.plugin; "
        "print([m for m in sys.modules if m in ('ultimate_jobs.models', 'ultimate_jobs.testing.kit')])"
    )
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}

    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert ended.stdout.strip() == "[]"


def test_pytest_finds_the_plugin_by_itself_where_the_package_is_installed() -> None:
    declared = ConfigParser()
    declared.read(ROOT / "setup.cfg")

    name, _, module = declared["options.entry_points"]["pytest11"].strip().partition(" = ")

    assert name == "ultimate_jobs"
    assert module == plugin.__name__


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_of_the_kit_is_found(name: str) -> None:
    assert getattr(testing, name).__name__ == name


def test_a_name_that_the_kit_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = testing.nothing
