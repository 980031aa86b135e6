"""``manage.py jobs_relay``: move staged jobs to the queue."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ultimate_jobs.conf import get_settings
from ultimate_jobs.core.records import Topic
from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.errors import JobsError
from ultimate_jobs.management.options import unreachable
from ultimate_jobs.process.signals import stopping
from ultimate_jobs.process.wake import Subscriber, listening


class Command(BaseCommand):
    help = "Move jobs that committed transactions staged from the outbox to the queue."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--drain", action="store_true", help="exit 0 once nothing waits that can be published"
        )

    def handle(self, *args: Any, drain: bool, **options: Any) -> None:
        try:
            relay = Relay(get_driver(), get_settings())
            if drain:
                self.stdout.write(f"published {relay.drain()}")
                return
        except JobsError as error:
            raise CommandError(str(error), returncode=2) from error
        except Unreachable as error:
            raise CommandError(str(unreachable()), returncode=1) from error
        told = Subscriber(Topic.OUTBOX, relay.wake, relay.trust_wake)
        with (
            stopping(lambda name: relay.stop(), lambda name: relay.stop()),
            listening(get_driver(), get_settings(), told),
        ):
            relay.run()
