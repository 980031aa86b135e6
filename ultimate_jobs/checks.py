"""System checks: everything that cannot work, found before a process starts.

E001  a mistake in ``ULTIMATE_JOBS``
E002  the database that holds the jobs is no PostgreSQL
E003  contenttypes is not installed
E004  a declaration that was refused
E005  the tables are not migrated (``check --database``)
W001  a job declares a concurrency cap that the driver cannot hold
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, Warning as Concern, register
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from ultimate_jobs import conf
from ultimate_jobs.definitions.registry import refused, registry
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import ConcurrencyUnenforceable, ConfigInvalid

APP = "ultimate_jobs"


def register_all() -> None:
    """Register every check with Django."""
    for check in (
        check_settings,
        check_contenttypes,
        check_database,
        check_declarations,
        check_caps,
    ):
        register(check, APP)
    register(check_migrated, APP, Tags.database)


def check_settings(app_configs: object = None, **kwargs: Any) -> list[CheckMessage]:
    """E001: list every mistake in the settings."""
    try:
        _, mistakes = conf.read(conf.declared_settings())
    except ConfigInvalid as error:
        mistakes = [error.cause]
    return [
        Error(mistake, hint=ConfigInvalid.advice, id="ultimate_jobs.E001") for mistake in mistakes
    ]


def check_contenttypes(app_configs: object = None, **kwargs: Any) -> list[CheckMessage]:
    """E003: ``related=`` needs content types."""
    if apps.is_installed("django.contrib.contenttypes"):
        return []
    return [
        Error(
            "django.contrib.contenttypes is not installed.",
            hint="Add 'django.contrib.contenttypes' to INSTALLED_APPS.",
            id="ultimate_jobs.E003",
        )
    ]


def check_declarations(app_configs: object = None, **kwargs: Any) -> list[CheckMessage]:
    """E004: list every declaration that discovery refused."""
    return [
        Error(
            f"{error.code}: {error.cause}",
            hint=error.fix,
            obj=error.meta.get("module"),
            id="ultimate_jobs.E004",
        )
        for error in refused
    ]


def check_caps(app_configs: object = None, **kwargs: Any) -> list[CheckMessage]:
    """W001: a worker would refuse to start over these jobs."""
    capped = [job for job in registry if job.concurrency is not None]
    if not capped or _alias() is None or get_driver().slots is not None:
        return []
    return [
        Concern(
            f"'{job.name}' declares a concurrency cap that the driver cannot hold.",
            hint=ConcurrencyUnenforceable.advice,
            id="ultimate_jobs.W001",
        )
        for job in capped
    ]


def check_database(app_configs: object = None, **kwargs: Any) -> list[CheckMessage]:
    """E002: the database that holds the jobs must be PostgreSQL, whichever way leads to it."""
    return [
        Error(
            f"The database '{alias}' is {connections[alias].vendor}; jobs need PostgreSQL.",
            hint=f"Point ULTIMATE_JOBS['{key}'] at a PostgreSQL database.",
            id="ultimate_jobs.E002",
        )
        for key, alias in (("DATABASE", _alias()), ("WAKE_DATABASE", _wake_alias()))
        if alias is not None and connections[alias].vendor != "postgresql"
    ]


def check_migrated(
    app_configs: object = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """E005: the tables must be there; asked only when ``--database`` names the alias."""
    alias = _alias()
    if alias is None or alias not in (databases or ()):
        return []
    if connections[alias].vendor != "postgresql" or sys.argv[1:2] == ["migrate"]:
        return []  # migrate runs the checks before it does what the hint says
    executor = MigrationExecutor(connections[alias])
    plan = executor.migration_plan([n for n in executor.loader.graph.leaf_nodes() if n[0] == APP])
    missing = [migration.name for migration, _ in plan if migration.app_label == APP]
    if not missing:
        return []
    return [
        Error(
            f"The database '{alias}' lacks the migrations {', '.join(missing)}.",
            hint=f"Run: manage.py migrate {APP} --database {alias}",
            id="ultimate_jobs.E005",
        )
    ]


def _alias() -> str | None:
    try:
        alias = conf.get_settings().database
    except ConfigInvalid:
        return None
    return alias if alias in django_settings.DATABASES else None


def _wake_alias() -> str | None:
    try:
        return conf.get_settings().wake_database
    except ConfigInvalid:
        return None
