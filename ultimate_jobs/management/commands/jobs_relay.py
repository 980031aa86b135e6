"""``manage.py jobs_relay``: move staged jobs to the queue."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ultimate_jobs.conf import get_settings
from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.errors import JobsError
from ultimate_jobs.management.options import effective, unreachable
from ultimate_jobs.management.running import RELAY, refuse_a_driver_of_one_process
from ultimate_jobs.supervise.serving import run_role


class Command(BaseCommand):
    help = "Move jobs that committed transactions staged from the outbox to the queue."

    def add_arguments(self, parser: ArgumentParser) -> None:
        for option in RELAY:
            option.add_to(parser)

    def handle(self, *args: Any, **given: Any) -> None:
        try:
            settings = get_settings()
            said = effective(RELAY, given, settings)
            refuse_a_driver_of_one_process()
            if said["drain"].value:
                published = Relay(get_driver(), settings).drain()
                self.stdout.write(f"published {published}")
            else:
                run_role("relay", settings, health=said["health"].value)
        except JobsError as error:
            raise CommandError(str(error), returncode=2) from error
        except Unreachable as error:
            raise CommandError(str(unreachable()), returncode=1) from error
