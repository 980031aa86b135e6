"""Our place in the harness that runs many queues side by side.

Copy it there as ``adapters/ultimate_jobs_adapter.py``, and install the package in
``venvs/ultimate_jobs``. ``BENCH_VARIANT`` is ``prepared`` or ``atomic`` to enqueue where prepared
statements are allowed, or in a transaction of its own. The worker has its defaults.
"""

from __future__ import annotations

import os
from functools import cached_property, partial
from operator import add
from types import SimpleNamespace
from typing import Any, ClassVar, TypedDict

from adapters import base  # type: ignore[import-not-found]

STEPS = 5
VARIANT = os.environ.get("BENCH_VARIANT", "")
AN_ID = """
       (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
        || right(replace(gen_random_uuid()::text, '-', ''), 20))::uuid"""
"""SQL of an id in the order of time, as those of ``enqueue`` are."""


class Number(TypedDict):
    """The input of both jobs."""

    n: int


class Peer(base.Adapter):  # type: ignore[misc, no-any-unimported]
    """A Django project with nothing but this package."""

    venv = "ultimate_jobs"
    default: ClassVar[dict[str, Any]] = {}
    default_note = "jobs_worker as it comes"
    durable = True
    pending_sql = (
        "SELECT count(*) FROM x_jobs WHERE state IN ('delayed', 'ready', 'running', 'suspended')"
    )
    finished_rows_sql = f"""
        INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, max_attempts, run_at,
                            state, attempt, claim, result)
        SELECT {AN_ID}, {AN_ID}, 'noop', 'default', 0, jsonb_build_object('n', n),
               'done-' || n, 3, now() - interval '1 hour', 'done', 1, 1, 'null'
          FROM generate_series(1, %(n)s) AS n"""  # noqa: S608 - constants

    def setup(self) -> None:
        """Make the tables."""
        _configure()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)

    def open_producer(self) -> None:
        """Import what the first call needs."""
        _ = self.jobs

    def enqueue_one(self, n: int) -> None:
        """Enqueue one job in its own transaction."""
        if VARIANT != "atomic":
            self.jobs.noop.enqueue({"n": n})
            return
        from django.db import transaction

        with transaction.atomic():
            self.jobs.noop.enqueue({"n": n})

    def enqueue_many(self, start: int, count: int) -> None:
        """Enqueue by one call."""
        self.jobs.noop.enqueue_many([{"n": n} for n in range(start, start + count)])

    def worker(self, **settings: Any) -> None:
        """Run a worker in this process."""
        _ = self.jobs
        from django.core.management import call_command

        call_command("jobs_worker", **settings)

    def durable_enqueue(self, count: int) -> None:
        """Enqueue runs of five steps."""
        self.jobs.five.enqueue_many([{"n": n} for n in range(count)])

    def durable_worker(self, **settings: Any) -> None:
        """Run a worker in this process."""
        self.worker(**settings)

    @cached_property
    def jobs(self) -> Any:
        """Declare the jobs once Django is ready."""
        _configure()
        from benchhook import tick  # type: ignore[import-not-found]

        from ultimate_jobs import NO_TENANT, Retry, Run, job

        declared: dict[str, Any] = {
            "input": Number,
            "tenant": NO_TENANT,
            "idempotency_key": lambda value: str(value["n"]),
            "retry": Retry(attempts=3),
        }

        @job(**declared, name="noop")
        def noop(run: Run[Number]) -> None:
            tick(run.input["n"])

        @job(**declared, name="five")
        def five(run: Run[Number]) -> None:
            for place in range(STEPS):
                run.step(f"step-{place}", partial(add, run.input["n"], place))
            tick(run.input["n"])

        return SimpleNamespace(noop=noop, five=five)


def _configure() -> None:
    import django
    from django.conf import settings

    if settings.configured:
        return
    settings.configure(
        SECRET_KEY="benchmarks have no secrets",  # noqa: S106 - it says so
        USE_TZ=True,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "HOST": base.PG_HOST,
                "PORT": base.PG_PORT,
                "USER": base.PG_USER,
                "NAME": base.dbname(),
                "CONN_MAX_AGE": None,
                "OPTIONS": {"prepare_threshold": 5} if VARIANT == "prepared" else {},
            }
        },
        INSTALLED_APPS=["django.contrib.contenttypes", "ultimate_jobs"],
    )
    django.setup()
