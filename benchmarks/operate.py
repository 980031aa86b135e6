"""What an operator's looks cost with a million jobs in the table.

    DATABASE_URL=postgresql://… python benchmarks/operate.py --rows 1000000

Fills the tables of the database named, measures every read and a dry run of every bulk verb, prints
milliseconds and statements, and empties the tables again. It refuses a database that holds jobs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

FILL = """
INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, max_attempts, run_at,
                    state, attempt, claim, claimed_by, visible_at, created_at, last_error, tenant_id)
SELECT gen_random_uuid(), gen_random_uuid(), 'job-' || n %% 20, 'queue-' || n %% 5, n %% 3,
       jsonb_build_object('n', n, 'text', repeat(md5(n::text), 6)), 'k' || n, 3,
       now() + (n %% 5 - 2) * interval '1 hour', s.state, 1, 1,
       CASE s.state WHEN 'running' THEN 'w-' || n %% 3 END,
       CASE s.state WHEN 'running' THEN now() END, now() - n * interval '1 second',
       CASE s.state WHEN 'dead' THEN 'ValueError: order ' || n || ' is gone' END, 't' || n %% 100
  FROM generate_series(1, %s) AS n
 CROSS JOIN LATERAL (
       SELECT CASE WHEN n %% 10000 = 0 THEN 'running'
                   WHEN n %% 20 = 1 THEN 'ready'
                   WHEN n %% 50 = 2 THEN 'dead'
                   ELSE 'done' END
 ) AS s (state)
"""


def looks() -> dict[str, Callable[[], object]]:
    """Answer what is measured."""
    from ultimate_jobs.core.selection import Selection
    from ultimate_jobs.core.states import JobState
    from ultimate_jobs.models import Job
    from ultimate_jobs.operate import bulk, dead, health, inspection, overview
    from ultimate_jobs.operate.inspection import Filter
    from ultimate_jobs.operate.listing import listing

    oldest = Job.objects.order_by("created_at")[0]
    some_dead = Selection(states=(JobState.DEAD,), queue="queue-2")
    dry = bulk.Bounds(dry_run=True)

    def list_of(**wanted: Any) -> Callable[[], object]:
        return lambda: listing(Filter(**wanted))

    return {
        "list": list_of(),
        "list, a queue": list_of(queue="queue-3"),
        "list, dead": list_of(states=(JobState.DEAD,)),
        "list, running": list_of(states=(JobState.RUNNING,)),
        "list, ready": list_of(states=(JobState.READY,)),
        "list, a tenant that nobody has": list_of(tenant="none"),
        "list, by error": list_of(states=(JobState.DEAD,), error_like="9 is gone"),
        "list, a page half-way": list_of(older_than=timedelta(seconds=500_000)),
        "search by key": list_of(key=oldest.idempotency_key),
        "search by id": lambda: inspection.show_job(str(oldest.id)),
        "overview": overview.overview,
        "health": lambda: health.health(health.Limits(max_dead=1)),
        "dead letters": dead.dead_groups,
        "dry run, retry": lambda: bulk.retry_jobs(some_dead, dry),
        "dry run, cancel": lambda: bulk.cancel_jobs(Selection(queue="queue-1"), dry),
        "dry run, remove": lambda: bulk.remove_jobs(Selection(queue="queue-4"), dry),
        "dry run, promote": lambda: bulk.promote_jobs(Selection(name="job-1"), dry),
    }


@contextmanager
def filled(cursor: Any, rows: int) -> Iterator[None]:
    """Hold a table of jobs for the block."""
    cursor.execute("SELECT EXISTS (SELECT 1 FROM x_jobs)")
    if cursor.fetchone()[0]:
        sys.exit("This database holds jobs; name an empty one.")
    try:
        cursor.execute(FILL, [rows])
        cursor.execute("VACUUM ANALYZE x_jobs")
        yield
    finally:
        cursor.execute("TRUNCATE x_jobs")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    django.setup()
    from django.db import connection  # noqa: TID251 - to fill and to count
    from django.test.utils import CaptureQueriesContext

    with connection.cursor() as cursor, filled(cursor, options.rows):
        print(f"{'':34}{'median ms':>10}{'worst ms':>10}{'statements':>12}")
        for name, look in looks().items():
            took = []
            with CaptureQueriesContext(connection) as asked:
                look()
            for _ in range(options.rounds):
                began = time.perf_counter()
                look()
                took.append((time.perf_counter() - began) * 1000)
            print(f"{name:34}{statistics.median(took):10.1f}{max(took):10.1f}{len(asked):12}")


if __name__ == "__main__":
    main()
