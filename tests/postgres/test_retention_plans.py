"""Plans of the purge and the fold, measured: none reads a table from end to end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from tests.builders import sql as run
from tests.postgres.test_plans import explained, indexes, scanned
from ultimate_jobs.drivers.postgres import sql

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

BEFORE = datetime(2026, 1, 1, tzinfo=UTC)

STATEMENTS: Mapping[str, tuple[str, Mapping[str, object], str]] = {
    "jobs": (sql.RETENTION_JOBS, {"state": "done"}, "x_jobs_finished_idx"),
    "dead jobs": (sql.RETENTION_JOBS, {"state": "dead"}, "x_jobs_finished_idx"),
    "events": (sql.RETENTION_EVENTS, {}, "x_job_events_expiry_idx"),
    "receipts": (sql.RETENTION_RECEIPTS, {}, "x_outbox_published_idx"),
    "counters": (sql.RETENTION_COUNTERS, {"span": 60}, "x_job_counters_bucket"),
    "fold": (sql.RETENTION_FOLD, {"span": 1, "into": 5}, "x_job_counters_bucket"),
}


@pytest.fixture
def filled() -> None:
    """Fill the tables with what a busy quarter leaves behind; a twentieth of it is past its time."""
    run(
        """
        INSERT INTO x_jobs (id, run_id, name, input, idempotency_key, max_attempts, state, updated_at)
        SELECT gen_random_uuid(), gen_random_uuid(), 'job', to_jsonb(repeat(md5(n::text), 40)),
               'k' || n, 3, (ARRAY['ready', 'done', 'done', 'dead'])[n % 4 + 1],
               timestamptz '2026-01-01 00:00Z' + (n - 1000) * interval '1 minute'
          FROM generate_series(1, 20000) AS n
        """
    )
    run(
        """
        INSERT INTO x_job_steps (run_id, name, job_id, position, status)
        SELECT j.run_id, 's', j.id, 1, 'completed' FROM x_jobs AS j
        """
    )
    run(
        """
        INSERT INTO x_job_events (id, name, payload, expires_at, xid)
        SELECT gen_random_uuid(), 'e', to_jsonb(repeat(md5(n::text), 40)),
               timestamptz '2026-01-01 00:00Z' + (n - 1000) * interval '1 minute', 1
          FROM generate_series(1, 20000) AS n
        """
    )
    run(
        """
        INSERT INTO x_outbox (id, run_id, name, input, idempotency_key, published_at)
        SELECT gen_random_uuid(), gen_random_uuid(), 'job', to_jsonb(repeat(md5(n::text), 40)), 'o' || n,
               timestamptz '2026-01-01 00:00Z' + (n - 1000) * interval '1 minute'
          FROM generate_series(1, 20000) AS n
        """
    )
    run(
        """
        INSERT INTO x_job_counters (span, bucket, name)
        SELECT s.span, timestamptz '2026-01-01 00:00Z' + (n - 500) * s.span * interval '1 minute', 'job'
          FROM generate_series(1, 10000) AS n
         CROSS JOIN (VALUES (1), (5), (60)) AS s (span)
        """
    )
    for table in ("x_jobs", "x_job_steps", "x_job_events", "x_outbox", "x_job_counters"):
        run(f"ANALYZE {table}")


@pytest.mark.parametrize("what", STATEMENTS)
def test_what_is_past_its_time_is_found_through_an_index(filled: None, what: str) -> None:
    statement, params, index = STATEMENTS[what]

    plan = explained(statement, {**params, "before": BEFORE, "limit": 100})

    assert index in indexes(plan)
    assert not scanned(plan)
