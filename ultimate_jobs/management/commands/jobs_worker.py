"""``manage.py jobs_worker``: run jobs."""

from __future__ import annotations

import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ultimate_jobs.conf import get_settings, queues_from_environment
from ultimate_jobs.core.records import Topic
from ultimate_jobs.definitions.registry import registry
from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.errors import JobsError
from ultimate_jobs.management.options import names, positive, stored, unreachable
from ultimate_jobs.process.signals import stopping
from ultimate_jobs.process.wake import Subscriber, listening
from ultimate_jobs.worker.loop import Worker

ROLES = ("relay",)


class Command(BaseCommand):
    help = (
        "Claim jobs and run them. SIGTERM tells the running bodies to stop and gives their "
        "attempts back; a second one stops waiting for them. Exits 0 after a clean stop, 1 when "
        "work was left behind, 2 on a wrong option."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--queues", type=names, help="queues to serve, separated by commas (WORKER_QUEUES)"
        )
        parser.add_argument("--concurrency", type=positive, help="bodies to run at once")
        parser.add_argument("--with", dest="roles", type=names, default=[], help="also run: relay")
        parser.add_argument(
            "--name", type=stored, help="what to call this process in rows and logs"
        )
        parser.add_argument(
            "--drain", action="store_true", help="exit 0 once nothing is due and nothing runs"
        )

    def handle(self, *args: Any, roles: list[str], drain: bool, **options: Any) -> None:
        unknown = sorted(set(roles) - set(ROLES))
        if unknown:
            raise CommandError(
                f"--with takes {', '.join(ROLES)}; not {', '.join(unknown)}.", returncode=2
            )
        try:
            worker = self._worker(options)
        except JobsError as error:
            raise CommandError(str(error), returncode=2) from error
        relay = Relay(get_driver(), get_settings()) if "relay" in roles else None
        with stopping(worker.interrupt, lambda name: worker.hurry()):
            if drain:
                self._drain(worker, relay)
            else:
                with _told(worker, relay), _beside(relay):
                    worker.run()
        if worker.stats.abandoned:
            sys.exit(1)

    def _drain(self, worker: Worker, relay: Relay | None) -> None:
        try:
            get_driver().outbox.pending()  # a worker waits for its database; a script must not
            worker.run(until_idle=True, feed=relay.drain if relay else lambda: 0)
        except Unreachable as error:
            raise CommandError(str(unreachable()), returncode=1) from error

    def _worker(self, options: dict[str, Any]) -> Worker:
        return Worker(
            get_driver(),
            registry,
            get_settings(),
            queues=options["queues"] or queues_from_environment(),
            concurrency=options["concurrency"],
            name=options["name"],
        )


def _told(worker: Worker, relay: Relay | None) -> AbstractContextManager[None]:
    """Tell the loops of this process of new work inside the block, over one session."""
    told = [Subscriber(Topic.JOBS, worker.wake, worker.trust_wake)]
    if relay is not None:
        told.append(Subscriber(Topic.OUTBOX, relay.wake, relay.trust_wake))
    return listening(get_driver(), get_settings(), *told)


@contextmanager
def _beside(relay: Relay | None) -> Iterator[None]:
    """Run the relay on a thread of its own inside the block."""
    if relay is None:
        yield
        return
    thread = threading.Thread(target=relay.run, name="ultimate_jobs-relay", daemon=True)
    thread.start()
    try:
        yield
    finally:
        relay.stop()
        thread.join()
