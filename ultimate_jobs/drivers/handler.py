"""The driver in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.records import Batch
from ultimate_jobs.drivers.base import Driver, Joined

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


@contextmanager
def using_driver(driver: Driver) -> Iterator[None]:
    """Let this process use another driver inside the block."""
    before = list(_installed)
    _installed.append(driver)
    try:
        yield
    finally:
        _installed[:] = before


def joined_driver(
    clock: Callable[[], datetime], enqueued: Callable[[Batch], object] = lambda batch: None
) -> Joined:
    """Build a driver that does everything on the calling thread's connection; for tests.

    Args:
        clock: the time that its statements go by.
        enqueued: told of every batch before it is written.

    """
    from ultimate_jobs.drivers.postgres.joined import JoinedDriver

    return JoinedDriver(get_settings().database, clock, enqueued)


@cache
def _postgres(alias: str, wake_alias: str | None) -> Driver:
    from ultimate_jobs.drivers.postgres.driver import PostgresDriver

    return PostgresDriver(alias, wake_alias)
