"""``manage.py jobs_worker``: run jobs, in one process or in several."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ultimate_jobs.conf import get_settings
from ultimate_jobs.drivers.base import Unreachable
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.enqueue.relay import Relay
from ultimate_jobs.errors import ConfigInvalid, JobsError
from ultimate_jobs.management.options import effective, parts_of_queues, unreachable
from ultimate_jobs.management.running import WORKER, refuse_a_driver_of_one_process
from ultimate_jobs.supervise.health import ready_within
from ultimate_jobs.supervise.parent import Parent
from ultimate_jobs.supervise.recycling import Limits
from ultimate_jobs.supervise.reloading import Reloader, life_of_watcher
from ultimate_jobs.supervise.serving import Plan, run_role, run_worker
from ultimate_jobs.supervise.supervisor import Place, Supervisor


class Command(BaseCommand):
    help = (
        "Claim jobs and run them. SIGTERM tells the running bodies to stop and gives their "
        "attempts back; a second one stops waiting for them. Exits 0 after a clean stop, 1 when "
        "work was left behind, 2 on a wrong option."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        for option in WORKER:
            option.add_to(parser)
        parser.add_argument(
            "--check", action="store_true", help="check everything that is given, and exit"
        )

    def handle(self, *args: Any, check: bool = False, **given: Any) -> None:
        try:
            code = self._run(given, check=check)
        except JobsError as error:
            raise CommandError(str(error), returncode=2) from error
        except Unreachable as error:
            raise CommandError(str(unreachable()), returncode=1) from error
        if code:
            sys.exit(code)

    def _run(self, given: Mapping[str, Any], *, check: bool) -> int:
        settings = get_settings()
        said = {name: one.value for name, one in effective(WORKER, given, settings).items()}
        _refuse_contradictions(said)
        refuse_a_driver_of_one_process()
        plan = Plan(
            settings=replace(
                settings,
                drain_timeout=said["shutdown_timeout"],
                queue_concurrency=parts_of_queues(said["queues"], settings),
            ),
            queues=said["queues"],
            concurrency=said["concurrency"],
            name=said["name"],
            limits=Limits(said["max_jobs"], said["max_memory"], said["max_lifetime"]),
        )
        plan.refuse_early(said["roles"])
        if check:
            self.stdout.write("nothing is wrong")
            return 0
        life = life_of_watcher()
        if said["reload"] and not said["drain"] and life is None:
            return Reloader().run()
        if said["drain"]:
            return _drain(plan, said)
        if said["processes"] > 1:
            return _supervised(plan, said, life)
        return run_worker(
            plan,
            roles=said["roles"],
            health=said["health"],
            parent=None if life is None else Parent(life),
        )


def _refuse_contradictions(said: Mapping[str, Any]) -> None:
    if said["drain"] and said["processes"] > 1:
        raise ConfigInvalid(
            "--drain and --processes were given together.",
            fix="Drain in one process, or start several commands.",
        )


def _drain(plan: Plan, said: Mapping[str, Any]) -> int:
    driver = get_driver()
    driver.outbox.pending()  # a worker waits for its database; a script must not
    relay = Relay(driver, plan.settings) if "relay" in said["roles"] else None
    return run_worker(plan, health=said["health"], until_idle=relay.drain if relay else lambda: 0)


def _supervised(plan: Plan, said: Mapping[str, Any], life: int | None) -> int:
    """Run every worker, and every role, in a child of its own."""

    def work(parent: Parent) -> int:
        return run_worker(plan, parent=parent)

    def role(name: str) -> Place:
        return Place(name, lambda parent: run_role(name, plan.settings, parent=parent))

    workers = [Place(f"worker-{number + 1}", work) for number in range(said["processes"])]
    return Supervisor(
        [*workers, *map(role, said["roles"])],
        close=get_driver().close,
        drain_seconds=plan.settings.drain_timeout.total_seconds(),
        ready_within=ready_within(plan.settings),
        health=said["health"],
        watched=life,
    ).run()
