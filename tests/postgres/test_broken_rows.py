"""Rows that were broken by hand: refused by a check of the schema, or read as what they are and named."""

# ruff: noqa: S608 - every statement is written out here

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import IntegrityError, transaction

from tests.builders import a_job, claim, reloaded, sql
from ultimate_jobs.core.states import TERMINAL, JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import (
    JobNotCancellable,
    JobNotPromotable,
    JobsError,
    RowStatusUnknown,
)
from ultimate_jobs.operate.verbs import cancel_job, promote_job, remove_job, retry_job

pytestmark = pytest.mark.django_db(transaction=True)

ID = "gen_random_uuid()"
STAGED = f"""
    INSERT INTO x_outbox (id, run_id, name, queue, priority, input, idempotency_key, max_attempts, run_at)
    VALUES ({ID}, {ID}, %s, %s, 0, '{{}}', %s, 1, now())
"""
STEP = f"INSERT INTO x_job_steps (run_id, job_id, position, name, status) VALUES ({ID}, {ID}, 0, %s, %s)"
LEASE = f"""
    INSERT INTO x_job_leases (lease_key, slot, job_id, run_id, claim, worker, expires_at)
    VALUES (%s, %s, {ID}, {ID}, 1, 'w', now())
"""

BROKEN: dict[str, tuple[str, ...]] = {
    "x_jobs_state_known": ("UPDATE x_jobs SET state = 'elsewhere'",),
    "x_jobs_name_not_empty": ("UPDATE x_jobs SET name = ''",),
    "x_jobs_queue_not_empty": ("UPDATE x_jobs SET queue = ''",),
    "x_jobs_key_not_empty": ("UPDATE x_jobs SET idempotency_key = ''",),
    "x_jobs_attempts_counted": (
        "UPDATE x_jobs SET attempt = -1",
        "UPDATE x_jobs SET max_attempts = 0",
    ),
    "x_jobs_running_is_claimed": (
        "UPDATE x_jobs SET state = 'running'",
        "UPDATE x_jobs SET state = 'running', claimed_by = 'w'",
        "UPDATE x_jobs SET state = 'running', visible_at = now()",
    ),
    "x_outbox_name_not_empty": (STAGED % ("''", "'x'", "'x'"),),
    "x_outbox_queue_not_empty": (STAGED % ("'x'", "''", "'x'"),),
    "x_outbox_key_not_empty": (STAGED % ("'x'", "'x'", "''"),),
    "x_job_steps_name_not_empty": (STEP % ("''", "'completed'"),),
    "x_job_steps_status_known": (STEP % ("'x'", "'perhaps'"),),
    "x_job_events_name_not_empty": (
        f"INSERT INTO x_job_events (id, name, payload, expires_at, xid) VALUES ({ID}, '', '{{}}', now(), 1)",
    ),
    "x_job_leases_key_not_empty": (LEASE % ("''", "1"),),
    "x_job_leases_slot_counted": (LEASE % ("'k'", "0"),),
    "x_job_pauses_name_not_empty": ("INSERT INTO x_job_pauses (kind, name) VALUES ('queue', '')",),
    "x_rate_limit_key_not_empty": (
        "INSERT INTO x_rate_limit VALUES ('', 1, 1, 1, now(), 0, now())",
    ),
    "x_scheduler_leader_is_one": (
        "INSERT INTO x_scheduler_leader (id, holder, expires_at) VALUES (2, 'w', now())",
    ),
    "x_scheduler_state_name_not_empty": (
        "INSERT INTO x_scheduler_state (name, rule, watermark) VALUES ('', '* * * * *', now())",
    ),
}


@pytest.mark.parametrize(
    ("check", "statement"),
    [
        pytest.param(check, statement, id=f"{check}-{number}")
        for check, statements in BROKEN.items()
        for number, statement in enumerate(statements)
    ],
)
def test_a_check_refuses_the_row_that_it_is_there_for(check: str, statement: str) -> None:
    row = a_job()

    with pytest.raises(IntegrityError, match=f'"{check}"'), transaction.atomic():
        sql(statement)

    assert reloaded(row).state == JobState.READY


def test_every_check_of_the_schema_has_a_row_that_breaks_it() -> None:
    found = sql(
        "SELECT conname FROM pg_constraint WHERE contype = 'c'"
        " AND connamespace = current_schema()::regnamespace"
        " AND conrelid::regclass::text LIKE 'x\\_%'"
    )

    assert {name for (name,) in found} == BROKEN.keys()


@contextmanager
def unchecked(check: str) -> Iterator[None]:
    """Do without one check of `x_jobs` inside the block; rows that it refuses go at the end."""
    ((condition,),) = sql(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s"
        " AND connamespace = current_schema()::regnamespace",
        [check],
    )
    sql(f"ALTER TABLE x_jobs DROP CONSTRAINT {check}")
    try:
        yield
    finally:
        sql("DELETE FROM x_jobs")
        sql(f"ALTER TABLE x_jobs ADD CONSTRAINT {check} {condition}")


@pytest.mark.parametrize(
    ("verb", "refusal"),
    [
        (retry_job, RowStatusUnknown),
        (cancel_job, JobNotCancellable),
        (promote_job, JobNotPromotable),
    ],
)
def test_a_state_that_this_version_does_not_know_is_touched_by_nobody(
    verb: Callable[[str], object], refusal: type[JobsError]
) -> None:
    with unchecked("x_jobs_state_known"):
        row = a_job()
        sql("UPDATE x_jobs SET state = 'elsewhere'")
        ((later,),) = sql("SELECT now() + interval '1 day'")

        assert claim(row.name).jobs == []
        for state in TERMINAL:
            assert get_driver().retention.delete_jobs(state, later, 1_000) == 0
        with pytest.raises(refusal, match=refusal.code):
            verb(str(row.id))
        assert reloaded(row).state == "elsewhere"
        remove_job(str(row.id))  # what is left to do about it
