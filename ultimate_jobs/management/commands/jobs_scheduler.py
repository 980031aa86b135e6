"""``manage.py jobs_scheduler``: fire what tasks have due."""

from __future__ import annotations

import logging
import sys
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ultimate_jobs.conf import get_settings
from ultimate_jobs.definitions.registry import tasks
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import JobsError
from ultimate_jobs.management.options import effective
from ultimate_jobs.management.running import SCHEDULER, refuse_a_driver_of_one_process
from ultimate_jobs.process.bell import Bell
from ultimate_jobs.process.log import event
from ultimate_jobs.process.pulse import Pulse
from ultimate_jobs.process.signals import stopping
from ultimate_jobs.scheduler.loop import Scheduler
from ultimate_jobs.supervise.probes import shown
from ultimate_jobs.supervise.serving import source_of

_LONG = 3_600.0


class Command(BaseCommand):
    help = (
        "Fire what tasks have due. Any number may run: one leads, the others stand by. SIGTERM "
        "ends it after the round in flight. Exits 0 after a clean stop, 1 when a round was left "
        "behind, 2 on a wrong option."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        for option in SCHEDULER:
            option.add_to(parser)

    def handle(self, *args: Any, **given: Any) -> None:
        pulse = Pulse("scheduler")
        try:
            settings = get_settings()
            said = effective(SCHEDULER, given, settings)
            refuse_a_driver_of_one_process()
            scheduler = Scheduler(get_driver(), tasks, name=said["name"].value, pulse=pulse)
            with shown(said["health"].value, source_of([pulse], settings)):
                ended = _supervised(scheduler, settings.drain_timeout.total_seconds())
        except JobsError as error:
            raise CommandError(str(error), returncode=2) from error
        if not ended:
            # The lease stays: nobody else may begin what this round may still be doing.
            event(logging.ERROR, "jobs.scheduler.drain-abandoned", scheduler=scheduler.id)
            sys.exit(1)


def _supervised(scheduler: Scheduler, patience: float) -> bool:
    """Run until told to stop; answer whether the last round ended in time."""
    told, left = Bell(), Bell()
    ended = False

    def work() -> None:
        nonlocal ended
        try:
            scheduler.run()
            ended = True
        finally:
            told.ring()
            left.ring()

    def stop(name: str) -> None:
        scheduler.stop()
        told.ring()

    with stopping(stop, lambda name: left.ring()):
        threading.Thread(target=work, name="ultimate_jobs-scheduler", daemon=True).start()
        while not told.wait(_LONG):
            pass
        left.wait(patience)
    return ended
