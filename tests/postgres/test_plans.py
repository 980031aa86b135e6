"""What a filled table costs: every hot statement is a seek in an index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import LEASE, WORKER, a_job, a_worker, claim, rolled_back, sql as run
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import ClaimedJob, HeldClaim, SlotRequest
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.drivers.postgres import sql
from ultimate_jobs.drivers.postgres.batches import STAGING_LOCK
from ultimate_jobs.drivers.postgres.connection import Database, native
from ultimate_jobs.drivers.postgres.queue import WAKE_PATIENCE, WAKE_SLOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

ROWS = 20_000


def fill(rows: int, *, width: int = 40) -> None:
    """Fill the tables with what a busy month leaves behind."""
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
                      to_jsonb(repeat(md5(n::text), %s))
         ) AS s (state, input)
        """,
        [rows, width],
    )
    run(
        """
        INSERT INTO x_outbox (id, run_id, name, queue, priority, input, idempotency_key,
                              max_attempts, run_at, staged_at, published_at, refusals)
        SELECT gen_random_uuid(), gen_random_uuid(), 'job-' || n %% 7, 'default', 0,
               to_jsonb(repeat(md5(n::text), %s)),
               'o' || n, 3, now(), now(), CASE WHEN n %% 2 = 0 THEN now() END, 0
          FROM generate_series(1, %s) AS n
        """,
        [width, rows],
    )


@pytest.fixture
def filled() -> None:
    """Have full tables, and let the planner know it."""
    fill(ROWS)
    a_worker("w-0")
    run("ANALYZE x_jobs")
    run("ANALYZE x_outbox")
    run("ANALYZE x_job_workers")


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def explained(
    statement: str, params: Mapping[str, object], *, once: bool = False
) -> list[Mapping[str, Any]]:
    """Answer the nodes of a plan; ``once``: the plan that is made for all parameters."""
    if not once:
        ((plans,),) = Database().rows(f"EXPLAIN (FORMAT JSON) {statement}", params)
        return list(nodes(plans[0]["Plan"]))
    text, names = native(statement)
    with rolled_back():
        run("SET LOCAL plan_cache_mode = force_generic_plan")
        run(f"PREPARE explained AS {text.decode()}")
        nothing = ", ".join(["NULL"] * len(names))
        ((plans,),) = run(f"EXPLAIN (FORMAT JSON) EXECUTE explained ({nothing})")
        run("DEALLOCATE explained")
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
    "shares": [4, 4],
    "lease": timedelta(seconds=30),
    "reap": True,
    "undead": [],
    "ahead": 8,
    "waitable": [f"job-{n}" for n in range(7)],
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
    "lease_keys": [None] * 1_000,
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


@pytest.mark.parametrize("once", [False, True])
def test_a_claim_reads_no_table_from_end_to_end(filled: None, *, once: bool) -> None:
    plan = explained(sql.CLAIM, CLAIM, once=once)

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
    words = ("ids", "run_ids", "keys", "inputs", "lease_keys")
    lists = {name: NEW[name][:count] for name in words}  # type: ignore[index]
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
    lists = {name: NEW[name][:1] for name in ("ids", "run_ids", "keys", "inputs", "lease_keys")}  # type: ignore[index]
    probe = below(explained(getattr(sql, statement), NEW | lists), "told")

    kinds = [node["Node Type"] for node in probe]
    assert indexes(probe) == {index}
    assert "Limit" in kinds
    assert not {"Sort", "Incremental Sort", "Seq Scan", "Bitmap Heap Scan"} & set(kinds)


ONE = {"id": new_id(), "run_id": new_id(), "idempotency_key": "n", "input": "{}", "lease_key": None}


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize(
    "statement", ["ENQUEUE", "ENQUEUE_ONE", "OUTBOX_STAGE", "OUTBOX_STAGE_ONE"]
)
def test_an_enqueue_reads_no_table_from_end_to_end_of_which_nothing_is_known(
    statement: str, *, once: bool
) -> None:
    fill(1_000, width=1)

    plan = explained(getattr(sql, statement), NEW | ONE, once=once)

    assert not scanned(plan) & {"x_jobs", "x_outbox"}


@pytest.mark.parametrize("once", [False, True])
def test_settling_and_signs_of_life_find_their_rows_by_id(filled: None, *, once: bool) -> None:
    held: dict[str, object] = {"worker": "w-1", "ids": [new_id()] * 8, "claims": [1] * 8}
    held |= {"lease_keys": ["job:a"] * 8, "slots": [1] * 8}
    settle: dict[str, object] = {
        "now": None,
        "shard": 0,
        "states": ["done"] * 8,
        "counted": [True] * 8,
        "in_place": [False] * 8,
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
    beat: dict[str, object] = {
        "now": None,
        "lease": timedelta(seconds=30),
        "host": "h",
        "pid": 1,
        "queues": ["default"],
        "jobs": ["job-1"],
        "concurrency": 8,
        "state": "running",
    }
    note: dict[str, object] = {"progress": ["{}"] * 8}

    done = settle | {"result": None}

    for statement, params in (
        (sql.SETTLE, settle),
        (sql.SETTLE_DONE, done),
        (sql.HEARTBEAT, beat),
        (sql.PROGRESS, note),
    ):
        plan = explained(statement, held | params, once=once)
        assert "x_jobs" not in scanned(plan), statement.splitlines()[0]
        assert "x_jobs_running_idx" not in indexes(plan) or statement is sql.HEARTBEAT


KEY = "job:tests.capped"


@pytest.fixture
def crowded(filled: None) -> None:
    """Let many rows stand by, many be due, and many be due later, behind keys that are full."""
    run(
        """
        INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, lease_key,
                            max_attempts, run_at, state, attempt, claim, blocked)
        SELECT gen_random_uuid(), gen_random_uuid(), 'job-1', 'default', n %% 3, '{}', 'c' || n,
               CASE WHEN n %% 2 = 0 THEN %s ELSE 'job-key:tests.capped:' || n %% 50 END, 3,
               now() + (CASE WHEN n %% 5 = 0 THEN interval '1 day' ELSE interval '0' END),
               'ready', 0, 0, n %% 10 = 1 OR n %% 10 = 2
          FROM generate_series(1, %s) AS n
        """,
        [KEY, ROWS],
    )
    run(
        """
        INSERT INTO x_job_leases (lease_key, slot, job_id, run_id, claim, worker, expires_at)
        SELECT 'job-key:tests.other:' || n, 1, gen_random_uuid(), gen_random_uuid(), 1, 'w-1',
               now() + interval '1 hour'
          FROM generate_series(1, 2000) AS n
        """
    )
    run("ANALYZE x_jobs")
    run("ANALYZE x_job_leases")


ACQUIRE: dict[str, object] = {
    "seed": 1,
    "run_ids": [new_id()],
    "caps": [2],
    "lease": timedelta(seconds=30),
}
ADMIT: dict[str, object] = {"after": "", "names": ["job-1"], "caps": [1]}
SLOTS: dict[str, tuple[dict[str, object], set[str]]] = {
    "SLOT_ACQUIRE": (ACQUIRE, {"x_job_leases_pkey"}),
    "SLOT_STAND_BY": ({}, {"x_jobs_lease_key_idx", "x_jobs_pkey"}),
    "SLOT_ADMIT": (ADMIT, {"x_jobs_blocked_idx", "x_jobs_lease_key_idx", "x_job_leases_pkey"}),
}


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("statement", SLOTS)
def test_slots_and_the_rows_behind_them_are_found_by_their_key(
    crowded: None, statement: str, *, once: bool
) -> None:
    held = {"now": None, "worker": "w-1", "ids": [new_id()], "claims": [1], "lease_keys": [KEY]}
    params, expected = SLOTS[statement]

    plan = explained(getattr(sql, statement), held | params, once=once)

    assert expected <= indexes(plan)


def a_request(job: ClaimedJob) -> SlotRequest:
    return SlotRequest(id=job.id, run_id=job.run_id, claim=job.claim, key=KEY, cap=1)


def test_a_full_key_costs_the_claims_behind_it_little(crowded: None) -> None:
    """Rows that cannot start are put aside a thousand at a time, and never read again."""
    run("UPDATE x_jobs SET run_at = now() + interval '1 day' WHERE lease_key IS NULL")
    run("UPDATE x_jobs SET blocked = FALSE, lease_key = %s WHERE lease_key IS NOT NULL", [KEY])
    run(
        "INSERT INTO x_job_leases (lease_key, slot, job_id, run_id, claim, worker, expires_at)"
        " VALUES (%s, 1, gen_random_uuid(), gen_random_uuid(), 1, 'w-1', now() + interval '1 hour')",
        [KEY],
    )
    free = a_job(name="job-2", priority=-1)
    slots, passes = get_driver().slots, 0
    assert slots is not None
    while not (found := claim(room=8, reap=False).jobs) or found[0].id != free.id:
        passes += 1
        met = slots.acquire(WORKER, LEASE, [a_request(job) for job in found])
        assert {answer.others for answer in met.values()} == {1}
        slots.stand_by(WORKER, [(HeldClaim(job.id, job.claim), KEY) for job in found])
        assert passes < 100

    assert passes <= ROWS / 1_000 + 1


def test_a_take_finds_its_bucket_by_the_primary_key() -> None:
    run(
        "INSERT INTO x_rate_limit (key, tokens, capacity, refill_per_second, last_at, spent,"
        " promised_until)"
        " SELECT 'gateway:' || n, 0, 10, 1, now(), 1, now() FROM generate_series(1, %s) AS n",
        [ROWS],
    )
    run("ANALYZE x_rate_limit")
    taken: dict[str, object] = {
        "now": None,
        "key": "gateway:7",
        "capacity": 10.0,
        "refill_per_second": 1.0,
        "cost": 1.0,
        "comes_back": True,
        "least_wait": 1.0,
        "longest_wait": 86_400.0,
    }

    take = explained(sql.RATE_LIMIT_TAKE, taken)
    purge = explained(sql.RATE_LIMIT_PURGE, {"now": None, "after": "gateway:3", "limit": 100})

    (upsert,) = (node for node in take if node["Node Type"] == "ModifyTable")
    assert upsert["Conflict Arbiter Indexes"] == ["x_rate_limit_pkey"]
    assert "x_rate_limit" not in scanned(take) | scanned(purge)
    assert "x_rate_limit_pkey" in indexes(purge)
