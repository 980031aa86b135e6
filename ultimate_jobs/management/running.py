"""What the long-running commands take: ``jobs_worker``, ``jobs_relay`` and ``jobs_scheduler``."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

from ultimate_jobs.drivers.base import Part
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import DriverLacks
from ultimate_jobs.management.options import (
    CONCURRENCY,
    QUEUES,
    SHUTDOWN_TIMEOUT,
    Option,
    names,
    positive,
    size,
    span,
    stored,
    up_to,
    yes_or_no,
)
from ultimate_jobs.supervise.probes import At, health_at
from ultimate_jobs.supervise.roles import ROLES

MOST_PROCESSES = 256


def roles(text: str) -> list[str]:
    """Read names of what runs beside a worker."""
    found = names(text)
    unknown = [name for name in found if name not in ROLES]
    if unknown:
        raise ArgumentTypeError(f"takes {', '.join(ROLES)}; not {', '.join(unknown)}")
    return found


def where_health(text: str) -> At | Path:
    """Read a port, ``HOST:PORT`` or the path of a file."""
    try:
        return health_at(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} {error}") from None


def refuse_a_driver_of_one_process() -> None:
    """Refuse to start a process over rows that no other process sees, and that end with it.

    Raises:
        DriverLacks: the driver in use has no durability.

    """
    driver = get_driver()
    if Part.DURABILITY in driver.absent:
        raise DriverLacks(
            f"The driver '{driver.name}' keeps its rows in the process that wrote them, and they end with it.",
            fix="Use the PostgreSQL driver; in a test, run relays and workers on its own threads.",
        )


NAME = Option("--name", stored, "what to call this process in rows and logs")

HEALTH = Option("--health", where_health, "answer health on this port, or touch this file")

DRAIN_WORKER = Option("--drain", yes_or_no, "exit once nothing is due and nothing runs")

DRAIN_RELAY = Option("--drain", yes_or_no, "exit once nothing waits that can be published")

WORKER = (
    QUEUES,
    CONCURRENCY,
    Option("--processes", up_to(MOST_PROCESSES), "worker processes, supervised", default=1),
    Option("--with", roles, f"also run: {', '.join(ROLES)}", default=(), dest="roles"),
    NAME,
    DRAIN_WORKER,
    Option("--max-jobs", positive, "drain and exit after so many attempts"),
    Option("--max-memory", size, "drain and exit once it has so much memory in use, as 512M"),
    Option("--max-lifetime", span, "drain and exit after this time, as 6h"),
    SHUTDOWN_TIMEOUT,
    Option("--reload", yes_or_no, "start again when code changes", default=False),
    HEALTH,
)
"""What ``jobs_worker`` takes, besides ``--check``."""

RELAY = (DRAIN_RELAY, HEALTH)
"""What ``jobs_relay`` takes."""

SCHEDULER = (NAME, HEALTH)
"""What ``jobs_scheduler`` takes."""
