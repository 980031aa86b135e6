"""The migrations: complete under any project's defaults, reversible, and free of the app's code."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import models

from tests.builders import a_job, a_worker, sql

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "ultimate_jobs" / "migrations"
TABLES = {
    "x_jobs",
    "x_outbox",
    "x_job_counters",
    "x_job_events",
    "x_job_leases",
    "x_job_pauses",
    "x_job_steps",
    "x_job_workers",
    "x_rate_limit",
    "x_scheduler_leader",
    "x_scheduler_state",
}

PROJECT = """
from __future__ import annotations
from django.db import models
from testproject.settings import *

{more}
"""

DEFAULTS = {
    "32 bits": 'DEFAULT_AUTO_FIELD = "django.db.models.AutoField"',
    "64 bits": 'DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"',
    "16 bits": 'DEFAULT_AUTO_FIELD = "django.db.models.SmallAutoField"',
    "a field of its own": 'DEFAULT_AUTO_FIELD = "tests.migrations.keys.OwnAutoField"',
    "no time zones": "USE_TZ = False",
    "a table space": 'DEFAULT_TABLESPACE = ""\nDEFAULT_INDEX_TABLESPACE = ""',
    "another language": 'LANGUAGE_CODE = "ar"\nUSE_I18N = True',
}


@pytest.mark.slow
@pytest.mark.parametrize("defaults", DEFAULTS)
def test_no_migration_is_missing_under_any_projects_defaults(defaults: str, tmp_path: Path) -> None:
    (tmp_path / "their_settings.py").write_text(PROJECT.format(more=DEFAULTS[defaults]))

    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "manage.py", "makemigrations", "ultimate_jobs"),
            *("--check", "--dry-run", "--settings=their_settings"),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "No changes detected" in done.stdout


def tables() -> set[str]:
    found = sql("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    return {name for (name,) in found if name.startswith("x_")}


def schema() -> list[tuple[str, ...]]:
    """Describe what the migrations made, as PostgreSQL knows it."""
    columns = sql(
        "SELECT table_name, column_name, data_type, is_nullable, column_default"
        "  FROM information_schema.columns"
        " WHERE table_schema = current_schema() AND table_name LIKE 'x\\_%' ORDER BY 1, 2"
    )
    indexes = sql(
        "SELECT tablename, indexname, indexdef FROM pg_indexes"
        " WHERE schemaname = current_schema() AND tablename LIKE 'x\\_%' ORDER BY 1, 2"
    )
    constraints = sql(
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = current_schema()::regnamespace"
        "   AND conrelid::regclass::text LIKE 'x\\_%' ORDER BY 1, 2"
    )
    options = sql("SELECT relname, reloptions FROM pg_class WHERE relname LIKE 'x\\_%' ORDER BY 1")
    return [*columns, *indexes, *constraints, *options]


@pytest.fixture
def migrated_afterwards() -> Iterator[None]:
    yield
    call_command("migrate", "ultimate_jobs", verbosity=0)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_migrations_go_back_to_nothing_and_come_again_to_the_same_schema(
    migrated_afterwards: None,
) -> None:
    before = schema()
    a_job()
    a_worker()
    assert tables() == TABLES

    call_command("migrate", "ultimate_jobs", "zero", verbosity=0)
    assert tables() == set()

    call_command("migrate", "ultimate_jobs", verbosity=0)
    assert schema() == before
    a_job()


@pytest.mark.django_db
def test_the_schema_holds_no_foreign_key_that_could_hold_a_row_of_the_project_back() -> None:
    found = sql(
        "SELECT conname FROM pg_constraint WHERE contype = 'f'"
        " AND conrelid::regclass::text LIKE 'x\\_%'"
    )

    assert found == []


def _modules() -> list[Path]:
    return [path for path in FOLDER.glob("*.py") if path.name != "__init__.py"]


@pytest.mark.parametrize("path", _modules(), ids=lambda path: path.stem)
def test_a_migration_imports_none_of_the_apps_code(path: Path) -> None:
    imported = {
        name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert {name.partition(".")[0] for name in imported} <= {"django", "__future__"}


def test_every_table_has_the_name_that_the_statements_use() -> None:
    found = apps.get_app_config("ultimate_jobs").get_models()

    assert {model._meta.db_table for model in found} == TABLES


def test_what_the_database_fills_in_python_does_not() -> None:
    """Rows are also written by statements; a default that only Django knows would be missing."""
    for model in apps.get_app_config("ultimate_jobs").get_models():
        for field in model._meta.fields:
            assert isinstance(field, models.AutoField | models.BigAutoField) or (
                not field.has_default()
            ), field
