"""What operators ask of a filled table: few statements, each along an index, none without a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connections  # noqa: TID251 - to see what is asked

from tests.builders import rolled_back, sql as run
from ultimate_jobs.core.selection import Selection
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.postgres.connection import Database
from ultimate_jobs.operate import overview, search, stranded
from ultimate_jobs.operate.bulk import (
    MAX_BULK_ROWS,
    Bounds,
    cancel_jobs,
    promote_jobs,
    remove_jobs,
    retry_jobs,
)
from ultimate_jobs.operate.dead import dead_groups, dead_letters
from ultimate_jobs.operate.health import Limits, health
from ultimate_jobs.operate.inspection import Filter, show_job
from ultimate_jobs.operate.listing import listing
from ultimate_jobs.operate.overview import staged_rows

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(180),
]

ROWS = 50_000
WINDOW = 500
CAP = 501
"""What a count reads, far below what each queue holds."""

QUEUES = 2
LEVELS = 3
COUNTS = 2 * QUEUES + 2
"""Of each queue what waits and what stands by, and over all what runs and what ended badly."""

MOST_STATEMENTS = 5


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill the tables with far more than one search may read, and let the planner know it."""
    monkeypatch.setattr(search, "WINDOW", WINDOW)
    monkeypatch.setattr(search, "TEXT_WINDOW", WINDOW)
    monkeypatch.setattr(overview, "CAP", CAP)
    run(
        """
        INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, max_attempts,
                            run_at, state, attempt, claim, claimed_by, visible_at, created_at,
                            last_error, tenant_id, lease_key, blocked)
        SELECT gen_random_uuid(), gen_random_uuid(), 'job-' || n %% 7,
               CASE WHEN n %% 4 = 0 THEN 'mail' ELSE 'default' END, n %% 3,
               to_jsonb(repeat(md5(n::text), 8)), 'k' || n / 2, 3,
               now() + (n %% 5 - 2) * interval '1 hour', s.state, 1, 1,
               CASE s.state WHEN 'running' THEN 'w-' || n %% 3 END,
               CASE s.state WHEN 'running' THEN now() END,
               now() - n * interval '1 second',
               CASE s.state WHEN 'dead' THEN 'ValueError: no ' || n END, 't' || n %% 50,
               CASE WHEN s.capped THEN 'job-key:' || n %% 30 END, s.capped
          FROM generate_series(1, %s) AS n
         CROSS JOIN LATERAL (
               SELECT CASE WHEN n %% 500 = 0 THEN 'running'
                           WHEN n > 40000 AND n %% 2 = 0 THEN 'ready'
                           WHEN n %% 10 = 1 THEN 'dead'
                           ELSE 'done' END,
                      n > 40000 AND n %% 500 > 0 AND n %% 10 IN (4, 8)
         ) AS s (state, capped)
        """,
        [ROWS],
    )
    run("VACUUM ANALYZE x_jobs")


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement as it was sent."""

    text: str
    params: Any

    def plan(self) -> list[Mapping[str, Any]]:
        """Run it once more, undone at the end, and answer the nodes of its plan."""
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {self.text}"
        with rolled_back():
            if isinstance(self.params, Mapping):
                ((plans,),) = Database().rows(explain, self.params)
            else:
                ((plans,),) = run(explain, self.params)
        return list(nodes(plans[0]["Plan"]))


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


@contextmanager
def watched() -> Iterator[list[Asked]]:
    """Note every statement of this connection in the block."""
    asked: list[Asked] = []

    def note(execute: Any, statement: str, params: Any, *more: Any) -> Any:
        if not statement.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
            asked.append(Asked(statement, params))
        return execute(statement, params, *more)

    with connections["default"].execute_wrapper(note):
        yield asked


def rows_read(plan: list[Mapping[str, Any]]) -> int:
    """Count the rows of ``x_jobs`` that were looked at, those passed over included."""
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in plan
        if node.get("Relation Name") == "x_jobs" and node["Node Type"].endswith("Scan")
    )


def costs(read: Callable[[], object], most_rows: int) -> None:
    """Assert that ``read`` asks little, and reads no table from end to end."""
    with watched() as asked:
        read()

    assert 1 <= len(asked) <= MOST_STATEMENTS, [one.text[:80] for one in asked]
    for one in asked:
        plan = one.plan()
        scanned = {
            node["Relation Name"]
            for node in plan
            if node["Node Type"] == "Seq Scan" and node["Actual Loops"]
        }
        assert "x_jobs" not in scanned, one.text
        assert rows_read(plan) <= most_rows, one.text


READY, RUNNING, DEAD = JobState.READY, JobState.RUNNING, JobState.DEAD

LISTS = {
    "everything": Filter(),
    "a queue": Filter(queue="mail"),
    "dead": Filter(states=(DEAD,)),
    "dead of a queue": Filter(states=(DEAD,), queue="mail"),
    "running": Filter(states=(RUNNING,)),
    "more ready than may be read": Filter(states=(READY,)),
    "ready of a queue": Filter(states=(READY,), queue="mail"),
    "a state that is everywhere": Filter(states=(JobState.DONE,), name="job-3"),
    "a state that is nowhere": Filter(states=(JobState.CANCELLED,)),
    "a key": Filter(key="k77"),
    "a key that nobody has": Filter(key="none"),
    "a tenant that nobody has": Filter(tenant="none"),
    "an object": Filter(related=(1, "7")),
    "an error": Filter(error_like="no 4"),
    "an error that nobody met": Filter(states=(DEAD,), error_like="none"),
    "old ones": Filter(older_than=timedelta(hours=8)),
    "new ones": Filter(newer_than=timedelta(minutes=1), queue="mail"),
}


def test_a_list_costs_the_same_whatever_it_is_filtered_by(filled: None) -> None:
    for wanted in LISTS.values():
        costs(partial(listing, wanted), COUNTS * CAP)


def test_a_search_finds_by_key_and_by_id_what_is_oldest(filled: None) -> None:
    ((job, key),) = run("SELECT id::text, idempotency_key FROM x_jobs ORDER BY created_at LIMIT 1")

    found = listing(Filter(key=key))

    assert [one["id"] for one in found["jobs"]][-1] == job
    costs(lambda: show_job(job), 1)


def test_the_overview_reads_each_count_up_to_its_cap(filled: None) -> None:
    costs(overview.overview, COUNTS * CAP)
    costs(lambda: health(Limits(max_dead=1, max_oldest=timedelta(minutes=1))), COUNTS * CAP)
    costs(lambda: staged_rows(200), 0)

    queues = {queue["queue"]: queue for queue in overview.overview()["queues"]}
    assert [queues[name]["standing_by"] for name in ("default", "mail")] == [CAP, CAP]
    ((oldest,),) = run(
        "SELECT extract(epoch FROM now() - min(run_at)) FROM x_jobs"
        " WHERE state = 'ready' AND queue = 'mail' AND NOT blocked"
    )
    assert queues["mail"]["oldest_ready_seconds"] == pytest.approx(float(oldest), abs=60)


def test_stranded_jobs_are_found_in_a_bounded_number_of_rows(
    filled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stranded, "WINDOW", WINDOW)

    found = stranded.stranded_jobs()

    assert {(group["queue"], group["capped"]) for group in found} == {
        ("default", True),
        ("mail", True),
    }
    read = sum(group["count"] for group in found)
    assert QUEUES * (WINDOW - LEVELS) < read <= QUEUES * WINDOW
    costs(stranded.stranded_jobs, QUEUES * (WINDOW + LEVELS + 1) + 1)


def test_dead_letters_are_grouped_from_a_bounded_number_of_rows(filled: None) -> None:
    costs(dead_groups, 2 * WINDOW + 1_001)
    costs(lambda: dead_letters("mail"), 4 * CAP)


BULK: dict[str, Callable[[Bounds], object]] = {
    "retry": lambda bounds: retry_jobs(Selection(states=(DEAD,)), bounds),
    "retry an error": lambda bounds: retry_jobs(
        Selection(states=(DEAD,), queue="mail", error_like="no"), bounds
    ),
    "cancel": lambda bounds: cancel_jobs(Selection(queue="mail"), bounds),
    "promote": lambda bounds: promote_jobs(Selection(name="job-1"), bounds),
    "remove": lambda bounds: remove_jobs(Selection(queue="mail"), bounds),
    "remove everything": lambda bounds: remove_jobs(Selection(), bounds),
}


@pytest.mark.parametrize(
    "bounds",
    [Bounds(dry_run=True, everything=True), Bounds(everything=True)],
    ids=["dry run", "done"],
)
def test_a_bulk_verb_reads_a_window_and_moves_a_thousand(filled: None, bounds: Bounds) -> None:
    for act in BULK.values():
        with rolled_back():
            costs(partial(act, bounds), 4 * WINDOW + 2 * MAX_BULK_ROWS)
