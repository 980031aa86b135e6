"""What can run beside a worker: a name for ``--with``, and how to make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ultimate_jobs.conf import Settings
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.process.pulse import Pulse
from ultimate_jobs.process.wake import Subscriber
from ultimate_jobs.scheduler.loop import Scheduler


class Role(Protocol):
    """A loop that runs until it is stopped."""

    def run(self) -> None:
        """Work until ``stop``."""

    def subscribers(self) -> Sequence[Subscriber]:
        """Say what word of new work it wants."""

    def stop(self) -> None:
        """End ``run`` soon; safe in a signal handler."""


ROLES: Mapping[str, Callable[[Settings, Pulse], Role]] = {
    "relay": lambda settings, pulse: Relay(get_driver(), settings, pulse),
    "scheduler": lambda settings, pulse: Scheduler(get_driver(), tasks, pulse=pulse),
}
