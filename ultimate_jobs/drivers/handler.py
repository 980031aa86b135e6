"""The driver in use."""

from __future__ import annotations

from functools import cache

from ultimate_jobs.conf import get_settings
from ultimate_jobs.drivers.base import Driver

_installed: list[Driver] = []


def get_driver() -> Driver:
    """Answer the installed driver, or the one for the database named in the settings."""
    if _installed:
        return _installed[-1]
    settings = get_settings()
    return _postgres(settings.database, settings.wake_database)


def set_driver(driver: Driver | None) -> None:
    """Install a driver for this process; ``None`` goes back to the one of the settings."""
    _installed[:] = [] if driver is None else [driver]


@cache
def _postgres(alias: str, wake_alias: str | None) -> Driver:
    from ultimate_jobs.drivers.postgres.driver import PostgresDriver

    return PostgresDriver(alias, wake_alias)
