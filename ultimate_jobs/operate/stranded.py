"""Jobs that wait in vain: they are due, and no living worker can take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from ultimate_jobs.drivers.handler import get_driver

PATIENCE = timedelta(minutes=1)
"""How long a job may be due before somebody should ask who would take it."""

WINDOW = 1_000
"""Due rows that are looked at in each queue, the oldest first."""


def stranded_jobs(only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Answer the stranded jobs by queue and name, of all queues or only of some, in one statement.

    With ``capped`` the queue holds more due rows than were looked at, and the count is at least
    what it says.
    """
    found = get_driver().operator.stranded(PATIENCE, WINDOW)
    return [asdict(group) for group in found if not only or group.queue in only]
