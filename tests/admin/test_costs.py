"""What the pages cost in a filled table: few statements, each along an index, none without a bound.

Statements that say who is asking (session, user, permissions, content types) are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.test import Client

from tests.admin.people import VERBS, VIEWS, somebody, statements, url
from tests.builders import a_job, sql
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Job
from ultimate_jobs.operate import finding, search

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(180),
]

ROWS = 30_000
WINDOW = 1_500
MOST_STATEMENTS = 5
MOST_ROWS = 4 * WINDOW + 2_000
CAP = 10_001


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """Fill the tables with far more than a page may read; answer the oldest job."""
    monkeypatch.setattr(search, "WINDOW", WINDOW)
    monkeypatch.setattr(search, "TEXT_WINDOW", WINDOW)
    monkeypatch.setattr(finding, "RUN_WINDOW", WINDOW)
    sql(
        """
        INSERT INTO x_jobs (id, run_id, name, queue, priority, input, idempotency_key, run_at, state,
                            attempt, claim, claimed_by, visible_at, created_at, last_error, tenant_id)
        SELECT gen_random_uuid(), gen_random_uuid(), 'job-' || n %% 7,
               CASE WHEN n %% 4 = 0 THEN 'mail' ELSE 'default' END, n %% 3,
               to_jsonb(repeat(md5(n::text), 8)), 'k' || n,
               now() + (n %% 5 - 2) * interval '1 hour', s.state, 1, 1,
               CASE s.state WHEN 'running' THEN 'w-' || n %% 3 END,
               CASE s.state WHEN 'running' THEN now() END,
               now() - n * interval '1 second',
               CASE s.state WHEN 'dead' THEN 'ValueError: no ' || n END, 't' || n %% 50
          FROM generate_series(1, %s) AS n
         CROSS JOIN LATERAL (
               SELECT CASE WHEN n %% 500 = 0 THEN 'running'
                           WHEN n > 20000 AND n %% 2 = 0 THEN 'ready'
                           WHEN n %% 10 = 1 THEN 'dead'
                           ELSE 'done' END
         ) AS s (state)
        """,
        [ROWS],
    )
    sql(
        """
        INSERT INTO x_job_steps (run_id, job_id, name, position, status)
        SELECT j.run_id, j.id, 'step', 0, 'completed' FROM x_jobs AS j
        """
    )
    sql("VACUUM ANALYZE x_jobs")
    sql("VACUUM ANALYZE x_job_steps")
    # By the default, which is for disks that turn, a thousand look-ups cost more than all of these rows.
    sql("SET random_page_cost = 1.1")
    yield Job.objects.order_by("created_at")[0]
    sql("RESET random_page_cost")


def rows_read(plan: list[Mapping[str, Any]]) -> float:
    """Count the rows of the big tables that were looked at, those passed over included."""
    return float(
        sum(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in plan
            if str(node.get("Relation Name")).startswith("x_job")
        )
    )


def costs(client: Client, method: str, target: str, data: Any = None, most: int = MOST_ROWS) -> Any:
    """Ask for a page, look at every statement it took, and answer the page."""
    answers: list[Any] = []
    asked = statements(lambda: answers.append(getattr(client, method)(target, data)))

    assert answers[0].status_code == 200, target
    assert 1 <= len(asked) <= MOST_STATEMENTS, (target, [one.text[:100] for one in asked])
    for one in asked:
        assert not re.search(r"\bOFFSET\b", one.text), one.text
        plan = one.plan()
        scanned = {
            node["Relation Name"]
            for node in plan
            if node["Node Type"] == "Seq Scan" and node["Actual Loops"]
        }
        assert not {"x_jobs", "x_job_steps"} & scanned, one.text
        assert rows_read(plan) <= most, one.text
    return answers[0]


LISTS: dict[str, dict[str, str]] = {
    "everything": {},
    "a state that is everywhere": {"state": "done"},
    "a state that is nowhere": {"state": "cancelled"},
    "dead": {"state": "dead"},
    "running": {"state": "running"},
    "more ready than may be read": {"state": "ready"},
    "a queue": {"queue": "mail"},
    "a name": {"name": "job-3"},
    "a name that is nowhere": {"name": "none"},
    "a tenant": {"tenant": "t7"},
    "a tenant that is nowhere": {"tenant": "none"},
    "an error": {"error": "no 4"},
    "an error that is nowhere": {"state": "dead", "error": "none"},
    "an object": {"related": "1:7"},
    "the past hour": {"age": "1h", "queue": "mail"},
    "the past week": {"age": "7d", "name": "none"},
    "a key": {"q": "k777"},
    "a key that is nowhere": {"q": "none"},
    "the beginning of a key": {"q": "k77*"},
    "the beginning of every key": {"q": "k*"},
    "a beginning that is nowhere": {"q": "zzz*"},
    "an id that is nowhere": {"q": "01a22900-64d2-7233-90ee-38c10968db19"},
    "an old id that is nowhere": {"q": "019a0000-64d2-7233-90ee-38c10968db19"},
    "a random id that is nowhere": {"q": "11111111-64d2-4233-90ee-38c10968db19"},
}


def test_the_list_costs_the_same_whatever_it_is_filtered_by(filled: Job) -> None:
    viewer = somebody("view_job")
    searches = {"the oldest": {"q": str(filled.id)}, "its run": {"q": str(filled.run_id)}}

    for query in (LISTS | searches).values():
        costs(viewer, "get", url("job_changelist", **query))
    for query in searches.values():
        answer = viewer.get(url("job_changelist", **query))
        assert [job["id"] for job in answer.context["jobs"]] == [str(filled.id)]


def test_older_pages_cost_what_the_first_costs(filled: Job) -> None:
    viewer = somebody("view_job")
    answer = costs(viewer, "get", url("job_changelist", queue="mail"))

    for _ in range(4):
        answer = costs(viewer, "get", answer.context["older"])
    costs(viewer, "get", answer.context["newer"])


def test_a_bulk_question_costs_the_same_whatever_it_is_about(filled: Job) -> None:
    operator = somebody("view_job", *VERBS)
    fitting = {"retry": "dead", "cancel": "ready", "promote": "ready", "remove": "done"}

    for verb, state in fitting.items():
        for query in (*LISTS.values(), {"q": str(filled.id)}, {"q": str(filled.run_id)}):
            asked = {**query, "state": state, "which": "matching"}
            costs(operator, "get", url("job_bulk", verb, **asked), most=MOST_ROWS + CAP)
    costs(operator, "get", url("job_bulk", "retry", which="matching"), most=MOST_ROWS + CAP)
    ids = [str(job) for job in Job.objects.values_list("id", flat=True)[:100]]
    costs(operator, "post", url("job_bulk", "retry"), {"which": "ticked", "ids": ids})


def a_capped_job() -> Job:
    """Write a run that holds one slot, among thousands that others hold."""
    row = a_job(JobState.RUNNING, lease_key="job-1:acme")
    sql(
        """
        INSERT INTO x_job_leases (lease_key, slot, job_id, run_id, claim, worker, expires_at)
        SELECT CASE n WHEN 1 THEN 'job-1:acme' ELSE 'job-' || n %% 7 END, n,
               CASE n WHEN 1 THEN %s ELSE gen_random_uuid() END, gen_random_uuid(), 1, 'w',
               now() + interval '1 hour'
          FROM generate_series(1, 3000) AS n
        """,
        [row.id],
    )
    sql("VACUUM ANALYZE x_job_leases")
    return row


def test_every_other_page_reads_little(filled: Job) -> None:
    operator = somebody(*VIEWS, *VERBS, "view_payload", "pause_queue")

    costs(operator, "get", url("job_change", filled.id), most=10)
    costs(operator, "get", url("job_change", a_capped_job().id), most=10)
    costs(operator, "get", url("job_act", filled.id, "retry"), most=10)
    costs(operator, "get", url("job_dead"), most=MOST_ROWS)
    costs(operator, "get", url("pause_changelist"), most=5 * CAP)
    costs(operator, "get", url("worker_changelist"), most=10)
    costs(operator, "get", url("taskstate_changelist"), most=10)
    costs(operator, "get", url("taskstate_change", "ultimate_jobs.purge"), most=10)
    costs(operator, "get", url("outboxentry_changelist"), most=10)
