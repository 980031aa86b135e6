"""What a filled table costs: every hot statement is a seek in an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import a_job, a_worker, sql as run
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.drivers.postgres.outbox import STAGING_LOCK
from ultimate_jobs.drivers.postgres.queue import WAKE_PATIENCE, WAKE_SLOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

ROWS = 20_000


@pytest.fixture
def filled() -> None:
    """Fill the tables with what a busy month leaves behind, and let the planner know it."""
    run(
        """
        INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, max_attempts,
                            run_at, state, attempt, claim, claimed_by, visible_at)
        SELECT gen_random_uuid(), gen_random_uuid(), 'job-' || n %% 7,
               CASE WHEN n %% 4 = 0 THEN 'mail' ELSE 'default' END, n %% 3, s.input, 'k' || n, 3,
               now() + (n %% 5 - 2) * interval '1 hour', s.state, 1, 1,
               CASE s.state WHEN 'running' THEN 'w-' || n %% 3 END,
               CASE s.state WHEN 'running' THEN now() - interval '1 minute' END
          FROM generate_series(1, %s) AS n
         CROSS JOIN LATERAL (
               SELECT (ARRAY['ready', 'delayed', 'suspended', 'running', 'done', 'done', 'dead',
                             'failed', 'cancelled', 'done'])[n %% 10 + 1],
                      to_jsonb(repeat(md5(n::text), 40))
         ) AS s (state, input)
        """,
        [ROWS],
    )
    run(
        """
        INSERT INTO x_outbox (id, run_id, name, queue, priority, input, idempotency_key,
                              max_attempts, run_at, staged_at, published_at, refusals)
        SELECT gen_random_uuid(), gen_random_uuid(), 'job-' || n %% 7, 'default', 0,
               to_jsonb(repeat(md5(n::text), 40)),
               'o' || n, 3, now(), now(), CASE WHEN n %% 2 = 0 THEN now() END, 0
          FROM generate_series(1, %s) AS n
        """,
        [ROWS],
    )
    a_worker("w-0")
    run("ANALYZE x_jobs")
    run("ANALYZE x_outbox")
    run("ANALYZE x_job_workers")


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def explained(statement: str, params: Mapping[str, object]) -> list[Mapping[str, Any]]:
    ((plans,),) = Database().rows(f"EXPLAIN (FORMAT JSON) {statement}", params)
    return list(nodes(plans[0]["Plan"]))


def scanned(plan: list[Mapping[str, Any]]) -> set[str]:
    """Name the tables that are read from end to end."""
    return {node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"}


def indexes(plan: list[Mapping[str, Any]]) -> set[str]:
    return {node["Index Name"] for node in plan if "Index Name" in node}


CLAIM = {
    "now": None,
    "worker": "w-9",
    "queues": ["default", "mail"],
    "names": [f"job-{n}" for n in range(7)],
    "room": 8,
    "share": 4,
    "lease": timedelta(seconds=30),
    "reap": True,
    "undead": [],
    "lapsed_error": "lapsed",
    "shard": 0,
}

NEW = {
    "now": None,
    "staging_lock": STAGING_LOCK,
    "ids": [new_id() for _ in range(1_000)],
    "run_ids": [new_id() for _ in range(1_000)],
    "keys": [f"n{n}" for n in range(1_000)],
    "inputs": ["{}"] * 1_000,
    "name": "job-1",
    "queue": "default",
    "priority": 0,
    "max_attempts": 3,
    "run_at": None,
    "delay": None,
    "tenant_id": None,
    "traceparent": None,
    "enqueued_by": None,
    "related_type_id": None,
    "related_id": None,
    "wake_slot": WAKE_SLOT,
    "wake_patience": WAKE_PATIENCE,
}


def test_a_claim_reads_no_table_from_end_to_end(filled: None) -> None:
    plan = explained(sql.CLAIM, CLAIM)

    assert "x_jobs" not in scanned(plan)
    assert {"x_jobs_claim_idx", "x_jobs_running_idx"} <= indexes(plan)


def test_a_claim_sorts_only_what_it_takes(filled: None) -> None:
    """Rows come out of the index in the order of the claim; a sort of the queue would not scale."""
    run("SET enable_sort = off")
    try:
        plan = explained(sql.CLAIM, CLAIM)
    finally:
        run("RESET enable_sort")

    below = [n for n in plan if n["Node Type"] == "Limit" for n in nodes(n)]
    sorts = [n for n in below if n["Node Type"] in {"Sort", "Incremental Sort"}]
    assert [n for n in sorts if n["Plan Rows"] > 1_000] == []


def test_rows_that_are_due_later_cost_a_claim_nothing(filled: None) -> None:
    """However many wait and however urgent they are, the due row behind them is found by seeks."""
    run(
        "UPDATE x_jobs SET run_at = now() + interval '1 day', priority = 9"
        " WHERE state IN ('ready', 'delayed', 'suspended')"
    )
    due = a_job(name="job-1", priority=-5)
    run("VACUUM ANALYZE x_jobs")

    ((plans,),) = Database().rows(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql.CLAIM}", CLAIM | {"reap": False}
    )

    plan = list(nodes(plans[0]["Plan"]))
    touched = plan[0]["Shared Hit Blocks"] + plan[0]["Shared Read Blocks"]
    due.refresh_from_db()
    assert due.state == "running"
    assert touched < 150


@pytest.mark.parametrize("only", [None, [new_id()]], ids=["a pass", "some rows"])
def test_a_relay_pass_reads_neither_table_from_end_to_end(filled: None, only: object) -> None:
    plan = explained(sql.OUTBOX_RELAY, {"now": None, "limit": 500, "only": only})

    assert not scanned(plan) & {"x_jobs", "x_outbox"}
    assert "x_outbox_staged_idx" in indexes(plan) or only is not None


@pytest.mark.parametrize("statement", ["ENQUEUE", "OUTBOX_STAGE"])
@pytest.mark.parametrize("count", [1, 10])
def test_an_enqueue_finds_the_holder_of_a_key_in_the_unique_index(
    filled: None, statement: str, count: int
) -> None:
    lists = {name: NEW[name][:count] for name in ("ids", "run_ids", "keys", "inputs")}  # type: ignore[index]
    plan = explained(getattr(sql, statement), NEW | lists)

    assert not scanned(plan) & {"x_jobs", "x_outbox"}
    assert {
        "x_jobs_name_tenant_idempotency_live_idx",
        "x_outbox_name_tenant_idempotency_staged_idx",
    } <= indexes(plan)


def below(plan: list[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """Answer the nodes of a CTE."""
    (cte,) = [node for node in plan if node.get("Subplan Name") == f"CTE {name}"]
    return list(nodes(cte))


@pytest.mark.parametrize(
    ("statement", "index"),
    [("ENQUEUE", "x_jobs_created_idx"), ("OUTBOX_STAGE", "x_outbox_staged_idx")],
)
def test_whether_somebody_was_told_already_is_a_short_look_at_the_end_of_an_index(
    filled: None, statement: str, index: str
) -> None:
    lists = {name: NEW[name][:1] for name in ("ids", "run_ids", "keys", "inputs")}  # type: ignore[index]
    probe = below(explained(getattr(sql, statement), NEW | lists), "told")

    kinds = [node["Node Type"] for node in probe]
    assert indexes(probe) == {index}
    assert "Limit" in kinds
    assert not {"Sort", "Incremental Sort", "Seq Scan", "Bitmap Heap Scan"} & set(kinds)


def test_settling_and_signs_of_life_find_their_rows_by_id(filled: None) -> None:
    held: dict[str, object] = {"worker": "w-1", "ids": [new_id()] * 8, "claims": [1] * 8}
    settle: dict[str, object] = {
        "now": None,
        "shard": 0,
        "states": ["done"] * 8,
        "counted": [True] * 8,
        "waits": [timedelta(0)] * 8,
        "errors": [None] * 8,
        "results": ["null"] * 8,
        "progress": [None] * 8,
        "done": [1] * 8,
        "retried": [0] * 8,
        "failed": [0] * 8,
        "dead": [0] * 8,
        "duration_ms": [1] * 8,
        **dict.fromkeys(("untils", "polls", "steps", "step_positions"), [None] * 8),
        **dict.fromkeys(("step_statuses", "step_events", "step_matches"), [None] * 8),
    }
    beat: dict[str, object] = {"now": None, "lease": timedelta(seconds=30)}
    note: dict[str, object] = {"progress": ["{}"] * 8}

    for statement, params in ((sql.SETTLE, settle), (sql.HEARTBEAT, beat), (sql.PROGRESS, note)):
        plan = explained(statement, held | params)
        assert "x_jobs" not in scanned(plan), statement.splitlines()[0]
