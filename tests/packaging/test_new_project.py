"""A project of a stranger: `startproject`, the wheel, three lines of settings, a job that is done."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import settings_of
from tests.packaging.conftest import outside

pytestmark = [
    pytest.mark.slow,
    pytest.mark.scenario,
    pytest.mark.timeout(600),
    pytest.mark.django_db(transaction=True),
]

JOBS = """
from dataclasses import dataclass

from ultimate_jobs import NO_TENANT, Retry, Run, job


@dataclass(frozen=True, slots=True)
class Greeting:
    name: str


@job(input=Greeting, tenant=NO_TENANT, idempotency_key=lambda i: i.name, retry=Retry(attempts=3))
def greet(run: Run[Greeting]) -> str:
    return run.step("greet", lambda: f"hello {run.input.name}")
"""

ENQUEUE = """
from django.db import transaction
from greetings.jobs import Greeting, greet

with transaction.atomic():
    print(greet.enqueue(Greeting("world")).id)
try:
    with transaction.atomic():
        greet.enqueue(Greeting("nobody"))
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A folder with a project, and the installed wheel before everything else on its path."""

    folder: Path
    installed: Path

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=outside(self.installed),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=250,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def site(tmp_path: Path, installed: Path) -> Site:
    (tmp_path / "site").mkdir()
    found = Site(tmp_path / "site", installed)
    found.run("-m", "django", "startproject", "mysite", ".")
    found.run("manage.py", "startapp", "greetings")
    return found


def test_the_wheel_and_three_lines_of_settings_are_enough(site: Site, database: str) -> None:
    ours = {key: settings_of()[key] for key in ("ENGINE", "HOST", "PORT", "USER", "PASSWORD")}
    settings = site.folder / "mysite" / "settings.py"
    settings.write_text(
        settings.read_text(encoding="utf-8")
        + f"\nDATABASES = {{'default': {ours | {'NAME': database}!r}}}"
        + "\nINSTALLED_APPS += ['ultimate_jobs', 'greetings']"
        + "\nULTIMATE_JOBS = {'CONCURRENCY': 4}\n",
        encoding="utf-8",
    )
    (site.folder / "greetings" / "jobs.py").write_text(JOBS, encoding="utf-8")

    where = site.run("-c", "import ultimate_jobs; print(ultimate_jobs.__file__)")
    assert where.startswith(str(site.installed))
    site.run("manage.py", "migrate", "--verbosity", "0")
    site.run("manage.py", "check", "--database", "default", "--fail-level", "WARNING")
    site.run("manage.py", "makemigrations", "ultimate_jobs", "--check", "--dry-run")
    job = site.run("manage.py", "shell", "--no-imports", "-c", ENQUEUE).split()[-1]
    site.run("manage.py", "jobs_worker", "--with", "relay", "--drain")
    shown = json.loads(site.run("manage.py", "jobs", "show", job, "--json"))
    listed = json.loads(site.run("manage.py", "jobs", "list", "--json"))

    assert (shown["state"], shown["result"], shown["attempt"]) == ("done", "hello world", 1)
    assert [one["id"] for one in listed["jobs"]] == [job]


def test_the_admin_finds_its_files(site: Site) -> None:
    settings = site.folder / "mysite" / "settings.py"
    settings.write_text(
        settings.read_text(encoding="utf-8")
        + "\nINSTALLED_APPS += ['ultimate_jobs']\nSTATIC_ROOT = BASE_DIR / 'static'\n",
        encoding="utf-8",
    )

    site.run("manage.py", "collectstatic", "--no-input", "--verbosity", "0")
    template = (
        "from django.template.loader import get_template; "
        "print(get_template('admin/ultimate_jobs/overview.html').origin)"
    )

    assert {path.name for path in (site.folder / "static" / "ultimate_jobs").iterdir()} >= {
        "admin.css",
        "refresh.js",
    }
    found = site.run("manage.py", "shell", "--no-imports", "-c", template).strip()
    assert found.startswith(str(site.installed))
