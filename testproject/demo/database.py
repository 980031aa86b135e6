"""The demo's own database: made, migrated, and dropped again."""

from __future__ import annotations

import secrets

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection  # noqa: TID251


def create() -> None:
    _administer("CREATE DATABASE {}")
    call_command("migrate", verbosity=0)


def drop() -> None:
    connection.close()
    _administer("DROP DATABASE IF EXISTS {} WITH (FORCE)")


def create_operator() -> tuple[str, str]:
    """Make an admin account; answer its name and password."""
    name, password = "demo", secrets.token_urlsafe(9)
    get_user_model().objects.create_superuser(name, password=password)
    return name, password


def _administer(statement: str) -> None:
    name = connection.ops.quote_name(str(connection.settings_dict["NAME"]))
    with connection._nodb_cursor() as cursor:  # noqa: SLF001
        cursor.execute(statement.format(name))
