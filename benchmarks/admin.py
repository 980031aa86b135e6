"""What the admin's pages cost over a million jobs: ``python -m benchmarks admin 1000000``.

Every page is asked in this process, as a superuser with a session; its time is that of the whole
answer, templates included. Statements are counted without the two that say who asks.
"""

from __future__ import annotations

import html
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from django.contrib.auth.models import User
from django.db import connection  # noqa: TID251 - to fill and to count
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

ROUNDS = 5
FILL = (
    """
    INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, max_attempts, run_at,
                        state, attempt, claim, claimed_by, visible_at, created_at, last_error, tenant_id)
    SELECT gen_random_uuid(), gen_random_uuid(), 'job-' || n %% 20, 'queue-' || n %% 5, n %% 3,
           jsonb_build_object('n', n, 'text', repeat(md5(n::text), 6)), 'k-' || n, 3,
           now() + (n %% 5 - 2) * interval '1 hour', s.state, 1, 1,
           CASE s.state WHEN 'running' THEN 'w-' || n %% 3 END,
           CASE s.state WHEN 'running' THEN now() END, now() - n * interval '1 second',
           CASE s.state WHEN 'dead' THEN 'ValueError: order ' || n || ' is gone' END, 't' || n %% 100
      FROM generate_series(1, %(jobs)s) AS n
     CROSS JOIN LATERAL (
           SELECT CASE WHEN n %% 10000 = 0 THEN 'running'
                       WHEN n %% 20 = 1 THEN 'ready'
                       WHEN n %% 50 = 2 THEN 'dead'
                       ELSE 'done' END
     ) AS s (state)
    """,
    """
    INSERT INTO x_job_counters (bucket, name, shard, done, retried, failed, dead, duration_ms)
    SELECT date_trunc('minute', now()) - n * interval '1 minute', 'job-' || j, 0, 40, 2, 1, 1, 9000
      FROM generate_series(0, 2880) AS n, generate_series(0, 19) AS j
     UNION ALL
    SELECT date_trunc('hour', now()) - n * interval '1 hour', 'job-' || j, 0, 2400, 120, 60, 60, 540000
      FROM generate_series(49, 720) AS n, generate_series(0, 19) AS j
    """,
    """
    INSERT INTO x_outbox (id, run_id, name, queue, input, idempotency_key)
    SELECT gen_random_uuid(), gen_random_uuid(), 'job-1', 'queue-1', '{}', 's-' || n
      FROM generate_series(1, 500) AS n
    """,
)


def main(jobs: str = "1000000") -> Iterator[str]:
    """Fill the tables, ask every page, answer the lines of a table."""
    with connection.cursor() as cursor:
        for statement in FILL:
            cursor.execute(statement, {"jobs": int(jobs)})
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("SELECT id FROM x_jobs ORDER BY created_at OFFSET 10 LIMIT 1")
        ((old,),) = cursor.fetchall()
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    yield "| Page | Median ms | Worst ms | Statements |"
    yield "|---|---|---|---|"
    for name, ask in pages(client, str(old)).items():
        asked = statements(ask)
        took = [seconds(ask) * 1000 for _ in range(ROUNDS)]
        yield f"| {name} | {statistics.median(took):.0f} | {max(took):.0f} | {asked} |"


def pages(client: Client, old: str) -> dict[str, Callable[[], Any]]:
    """Answer what is measured."""

    def page(name: str, *args: str, **query: str) -> Callable[[], Any]:
        path = reverse(f"admin:ultimate_jobs_{name}", args=args)
        return lambda: client.get(path, query)

    def dry_run(verb: str, **query: str) -> Callable[[], Any]:
        path = reverse("admin:ultimate_jobs_job_bulk", args=[verb])
        return lambda: client.post(path, {"which": "matching", **query})

    first = page("job_changelist")().content.decode()
    older = html.unescape(first.partition('rel="next" href="')[2].partition('"')[0])
    return {
        "overview, 24 hours": page("overview_changelist"),
        "overview, 30 days": page("overview_changelist", period="30d"),
        "list": page("job_changelist"),
        "list, the next page": lambda: client.get(older),
        "list, dead": page("job_changelist", state="dead"),
        "list, ready in a queue": page("job_changelist", state="ready", queue="queue-1"),
        "list, a tenant that nobody has": page("job_changelist", tenant="nobody"),
        "list, a text in the error": page("job_changelist", state="dead", error="9 is gone"),
        "search, an id": page("job_changelist", q=old),
        "search, a key": page("job_changelist", q="k-999990"),
        "search, the beginning of a key": page("job_changelist", q="k-9999*"),
        "a job": page("job_change", old),
        "dead letters": page("job_dead"),
        "queues": page("pause_changelist"),
        "outbox": page("outboxentry_changelist"),
        "dry run, retry the dead of a queue": dry_run("retry", state="dead", queue="queue-2"),
        "dry run, cancel a queue": dry_run("cancel", queue="queue-1"),
        "dry run, remove everything": dry_run("remove"),
    }


def statements(ask: Callable[[], Any]) -> int:
    """Count what one page asks of the database."""
    with CaptureQueriesContext(connection) as captured:
        answer = ask()
    if answer.status_code != 200:
        raise RuntimeError(f"answered {answer.status_code}")
    who = ('"django_session"', '"auth_user"')
    return sum(not any(table in query["sql"] for table in who) for query in captured)


def seconds(ask: Callable[[], object]) -> float:
    """Measure one answer."""
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began
