"""The tables of the package, emptied without the cost of a flush."""

from __future__ import annotations

from django.apps import apps

from tests.builders import sql


def empty_tables() -> None:
    """Delete all rows. Nothing else may have been written by who asks for it."""
    models = apps.get_app_config("ultimate_jobs").get_models()
    tables = sorted({model._meta.db_table for model in models})
    sql(";".join(f"DELETE FROM {table}" for table in tables))  # noqa: S608 - our own names
