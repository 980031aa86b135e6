"""System checks: what cannot work is found before a process starts, each by its id."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.db import connections  # noqa: TID251 - a second alias, and a history to rewrite
from django.db.migrations.recorder import MigrationRecorder
from pytest_django import Settings

from tests.builders import Declarations, settings_of, sql, without_slots
from tests.commands.project import Project, altered
from ultimate_jobs import Concurrency, checks
from ultimate_jobs.checks import check_migrated
from ultimate_jobs.errors import TenantRequired

MIGRATIONS = sorted(path.stem for path in Path("ultimate_jobs/migrations").glob("[0-9]*.py"))


def found(**options: Any) -> list[CheckMessage]:
    """Run the checks as ``manage.py check`` does; answer what ours say."""
    return [m for m in run_checks(**options) if str(m.id).startswith("ultimate_jobs.")]


def ids(messages: list[CheckMessage]) -> list[str]:
    return [str(message.id) for message in messages]


def test_a_project_that_can_work_is_left_alone() -> None:
    assert found() == []


# ultimate_jobs.E001


def test_e001_every_mistake_in_the_settings_is_an_error_of_its_own(settings: Settings) -> None:
    settings.ULTIMATE_JOBS = {"CONCURENCY": 4, "OUTBOX": "never", "DRAIN_TIMEOUT": 0}

    messages = found()

    assert ids(messages) == ["ultimate_jobs.E001"] * 3
    assert [message.is_serious() for message in messages] == [True] * 3
    for word, message in zip(("CONCURENCY", "OUTBOX", "DRAIN_TIMEOUT"), messages, strict=True):
        assert word in message.msg
        assert "ULTIMATE_JOBS" in str(message.hint)


# ultimate_jobs.E002


LITE = '{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}'


@pytest.mark.scenario
@pytest.mark.parametrize(
    ("alias", "settings"),
    [
        ("default", f'DATABASES = {{"default": {LITE}}}'),
        ("lite", f'DATABASES["lite"] = {LITE}\nULTIMATE_JOBS = {{"DATABASE": "lite"}}'),
    ],
    ids=["the default", "another one"],
)
def test_e002_jobs_on_a_database_that_is_no_postgresql_are_refused(
    tmp_path: Path, alias: str, settings: str
) -> None:
    for words in (["check"], ["check", "--database", alias], ["jobs_worker", "--drain"]):
        done = altered(tmp_path, settings).manage(*words)

        assert done.code == 1
        assert f"(ultimate_jobs.E002) The database '{alias}' is sqlite" in done.err
        assert "HINT: Point ULTIMATE_JOBS['DATABASE'] at a PostgreSQL database." in done.err
        assert "Traceback" not in done.err


@pytest.mark.scenario
def test_e002_a_way_for_the_wake_that_leads_to_no_postgresql_is_refused(tmp_path: Path) -> None:
    settings = f'DATABASES["lite"] = {LITE}\nULTIMATE_JOBS = {{"WAKE_DATABASE": "lite"}}'
    done = altered(tmp_path, settings).manage("check")

    assert done.code == 1
    assert "(ultimate_jobs.E002) The database 'lite' is sqlite" in done.err
    assert "HINT: Point ULTIMATE_JOBS['WAKE_DATABASE'] at a PostgreSQL database." in done.err


@pytest.mark.scenario
def test_e002_a_database_that_holds_no_jobs_may_be_what_it_likes(tmp_path: Path) -> None:
    assert altered(tmp_path, f'DATABASES["lite"] = {LITE}').manage("check").code == 0


def test_e002_is_silent_while_the_database_is_not_known(settings: Settings) -> None:
    settings.ULTIMATE_JOBS = {"DATABASE": "nowhere"}

    assert ids(found()) == ["ultimate_jobs.E001"]


# ultimate_jobs.E003


NEARLY_BARE = """
INSTALLED_APPS = ["ultimate_jobs"]
MIDDLEWARE = TEMPLATES = urlpatterns = []
ROOT_URLCONF = __name__
"""


@pytest.mark.scenario
def test_e003_a_project_without_content_types_is_told_to_install_them(tmp_path: Path) -> None:
    done = altered(tmp_path, NEARLY_BARE).manage("check")

    assert done.code == 1
    assert "(ultimate_jobs.E003)" in done.err
    assert "HINT: Add 'django.contrib.contenttypes' to INSTALLED_APPS." in done.err
    assert "Traceback" not in done.err


# ultimate_jobs.E004


def test_e004_every_refused_declaration_is_an_error_with_its_code_and_its_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = [TenantRequired("'shop.one' declares no tenant."), TenantRequired("'shop.two' too.")]
    monkeypatch.setattr(checks, "refused", refused)

    messages = found()

    assert ids(messages) == ["ultimate_jobs.E004"] * 2
    assert [message.msg for message in messages] == [
        "X_JOB_TENANT_REQUIRED: 'shop.one' declares no tenant.",
        "X_JOB_TENANT_REQUIRED: 'shop.two' too.",
    ]
    assert [message.is_serious() for message in messages] == [True, True]
    assert messages[0].hint == TenantRequired.advice


BROKEN = """
from ultimate_jobs import NO_TENANT, Retry, job

@job(input=int, tenant=NO_TENANT, retry=Retry())
def send(run): ...
"""


@pytest.mark.scenario
def test_e004_no_command_starts_over_a_refused_declaration(tmp_path: Path) -> None:
    for app in ("parcels", "letters"):
        (tmp_path / app).mkdir()
        (tmp_path / app / "__init__.py").touch()
        (tmp_path / app / "jobs.py").write_text(BROKEN)
    project = altered(tmp_path, 'INSTALLED_APPS += ["parcels", "letters"]')

    for words in (["check"], ["jobs_worker", "--drain"], ["jobs", "list"]):
        done = project.manage(*words)

        assert done.code == 1
        assert not done.out
        assert done.err.count("X_IDEMPOTENCY_REQUIRED") == 2
        assert "parcels.jobs: (ultimate_jobs.E004)" in done.err
        assert "letters.jobs: (ultimate_jobs.E004)" in done.err
        assert "Traceback" not in done.err


# ultimate_jobs.E005


def forget(migration: str) -> None:
    MigrationRecorder(connections["default"]).record_unapplied("ultimate_jobs", migration)


@pytest.mark.django_db
def test_e005_a_missing_migration_is_an_error_that_names_it_and_the_command() -> None:
    forget(MIGRATIONS[-1])

    (message,) = found(databases=["default"])

    assert message.id == "ultimate_jobs.E005"
    assert message.is_serious()
    assert message.msg.endswith(f"lacks the migrations {MIGRATIONS[-1]}.")
    assert message.hint == "Run: manage.py migrate ultimate_jobs --database default"


@pytest.mark.django_db
def test_e005_a_migrated_database_is_left_alone() -> None:
    assert found(databases=["default"]) == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("app", "migration"),
    [("shop", "0001_initial"), ("contenttypes", "0002_remove_content_type_name")],
    ids=["another app", "one we depend on"],
)
def test_e005_another_apps_missing_migration_is_not_ours(app: str, migration: str) -> None:
    MigrationRecorder(connections["default"]).record_unapplied(app, migration)

    assert found(databases=["default"]) == []


@pytest.mark.parametrize("databases", [None, [], ["other"]])
def test_e005_makes_no_query_unless_the_database_is_named(databases: list[str] | None) -> None:
    assert check_migrated(databases=databases) == []
    assert found() == []


@pytest.mark.django_db
def test_e005_does_not_keep_migrate_from_doing_what_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget(MIGRATIONS[-1])
    monkeypatch.setattr(sys, "argv", ["manage.py", "migrate", "ultimate_jobs"])

    assert found(databases=["default"]) == []


@pytest.mark.scenario
@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_e005_an_empty_database_is_refused_then_migrated_then_accepted() -> None:
    name = f"{settings_of()['NAME']}_empty"
    sql(f'DROP DATABASE IF EXISTS "{name}"')
    sql(f'CREATE DATABASE "{name}"')
    empty = Project({"DATABASE_NAME": name})
    try:
        before = empty.manage("check", "--database", "default")
        migrated = empty.manage("migrate")
        after = empty.manage("check", "--database", "default")
    finally:
        sql(f'DROP DATABASE "{name}" WITH (FORCE)')

    assert before.code == 1
    assert "(ultimate_jobs.E005)" in before.err
    assert all(migration in before.err for migration in MIGRATIONS)
    assert migrated.code == 0, migrated.err
    assert after.code == 0, after.err


# ultimate_jobs.W001


@pytest.mark.parametrize("cap", [3, Concurrency(key=lambda i: i.key, limit=1)])
def test_w001_a_cap_the_driver_cannot_hold_is_a_warning_that_names_the_job(
    declare: Declarations, cap: Any
) -> None:
    declare()
    capped = declare(concurrency=cap)

    assert found() == []
    with without_slots():
        (message,) = found()

    assert message.id == "ultimate_jobs.W001"
    assert not message.is_serious()
    assert f"'{capped.name}'" in message.msg
    assert "concurrency=" in str(message.hint)
