"""The metrics that `deploy/prometheus` asks the database for are what the commands answer."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml
from django.db.models.functions import Now

from testproject.postgres.server import ROOT
from tests.builders import a_job, a_staged_row, a_worker, sql
from tests.docs.test_docs_reference import page, rows, section
from ultimate_jobs.core.states import JobState
from ultimate_jobs.models import Counter, SchedulerLeader
from ultimate_jobs.operate.counters import totals
from ultimate_jobs.operate.overview import outbox_backlog, queue_demand, queue_stats
from ultimate_jobs.operate.pauses import pause_queue
from ultimate_jobs.process.clock import database_now

FOLDER = ROOT / "deploy" / "prometheus"
LATER = timedelta(hours=1)


class _Loader(yaml.SafeLoader):
    """Reads the exporter's own tag as text."""


_Loader.add_constructor("!env", lambda loader, node: str(node.value))


def configuration() -> dict[str, Any]:
    text = (FOLDER / "query-exporter.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.load(text, _Loader)  # noqa: S506 - a safe loader, and one tag more
    return found


def scraped(metric: str) -> dict[tuple[str, ...], float]:
    """Ask the database as the exporter does; answer the values by their labels."""
    asked = configuration()
    (query,) = (query for query in asked["queries"].values() if metric in query["metrics"])
    labels = asked["metrics"][metric].get("labels", [])
    answered = sql(f"SELECT to_jsonb(answer) FROM ({query['sql']}) answer")  # noqa: S608 - ours
    found = [json.loads(row) for (row,) in answered]
    for row in found:
        assert set(row) == {*query["metrics"], *labels}
    return {tuple(row[label] for label in labels): row[metric] for row in found}


@pytest.mark.django_db
class TestValues:
    def test_queues_are_counted_as_the_commands_count_them(self) -> None:
        for state in (JobState.READY, JobState.DELAYED, JobState.SUSPENDED, JobState.RUNNING):
            a_job(state, queue="mail")
        a_job(JobState.READY, queue="mail", due_in=-LATER)
        a_job(JobState.READY, queue="mail", due_in=LATER)
        a_job(JobState.READY, queue="mail", blocked=True, lease_key="k")
        a_job(JobState.READY, queue="paused")
        pause_queue("paused")
        for state in (JobState.DEAD, JobState.FAILED, JobState.CANCELLED, JobState.DONE):
            a_job(state, queue="dead")
        stats = {queue["queue"]: queue for queue in queue_stats()}

        depth, oldest = scraped("queue_depth"), scraped("queue_oldest_ready_seconds")

        assert (
            depth
            == {("mail",): stats["mail"]["ready"], ("paused",): 1}
            == {
                ("mail",): 3,
                ("paused",): 1,
            }
        )
        assert oldest["mail",] == pytest.approx(stats["mail"]["oldest_ready_seconds"], abs=60)
        assert oldest["mail",] >= LATER.total_seconds()
        assert scraped("queue_demand") == {("mail",): queue_demand()["demand"]} == {("mail",): 5}
        assert scraped("queue_dead_jobs") == {("dead",): stats["dead"]["dead"]} == {("dead",): 1}

    def test_nothing_is_nothing(self) -> None:
        for metric in ("queue_depth", "queue_demand", "queue_dead_jobs"):
            assert scraped(metric) == {}
        for metric in ("outbox_depth", "outbox_oldest_seconds", "outbox_refused", "job_workers"):
            assert scraped(metric) == {(): 0}
        for metric in ("job_worker_capacity", "job_worker_in_flight", "scheduler_leads"):
            assert scraped(metric) == {(): 0}
        assert set(scraped("jobs_ended").values()) == {0}

    def test_the_outbox(self) -> None:
        a_staged_row()
        a_staged_row(refusals=2)
        a_staged_row(published_at=Now())

        backlog = outbox_backlog()

        assert scraped("outbox_depth") == {(): backlog["waiting"]} == {(): 2}
        assert scraped("outbox_refused") == {(): backlog["refused"]} == {(): 1}
        assert scraped("outbox_oldest_seconds")[()] >= 0

    def test_only_what_lives_counts_as_the_fleet(self) -> None:
        a_worker("one", concurrency=8, running=["a", "b"])
        a_worker("two", concurrency=4)
        a_worker("gone", concurrency=16, running=["c"], alive_for=-LATER)
        SchedulerLeader.objects.create(id=1, holder="s", expires_at=database_now() + LATER)

        assert scraped("job_workers") == {(): 2}
        assert scraped("job_worker_capacity") == {(): 12}
        assert scraped("job_worker_in_flight") == {(): 2}
        assert scraped("scheduler_leads") == {(): 1}

    def test_a_leader_of_old_leads_no_longer(self) -> None:
        SchedulerLeader.objects.create(id=1, holder="s", expires_at=database_now() - LATER)

        assert scraped("scheduler_leads") == {(): 0}

    def test_endings_of_the_last_whole_minutes(self) -> None:
        ((minute,),) = sql("SELECT date_trunc('minute', statement_timestamp())")
        a_count(minute - timedelta(minutes=1), done=3, retried=2)
        a_count(minute - timedelta(minutes=4), shard=1, done=4, failed=1, dead=5)
        a_count(minute - timedelta(minutes=30), done=100)

        ended = scraped("jobs_ended")

        assert ended == {("done",): 7, ("retried",): 2, ("failed",): 1, ("dead",): 5}
        assert totals("1h")["done"] == 107


def a_count(bucket: datetime, **columns: int) -> None:
    Counter.objects.create(bucket=bucket, name="shop.checkout", **columns)


def test_every_metric_is_asked_for_once_and_is_on_the_page() -> None:
    asked = configuration()
    queried = [metric for query in asked["queries"].values() for metric in query["metrics"]]
    written = rows(section(page("docs/metrics.md"), "## Names"))

    assert sorted(queried) == sorted(asked["metrics"])
    assert {name.strip("`"): re.findall(r"`(\w+)`", labels) for name, labels, *_ in written} == {
        name: metric.get("labels", []) for name, metric in asked["metrics"].items()
    }


def test_rules_are_about_metrics_that_there_are() -> None:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    known = set(configuration()["metrics"])
    words = {"delta", "or", "unless", "offset", "m"}
    for rule in group["rules"]:
        named = set(re.findall(r"[a-z_]+", rule["expr"])) - words

        assert named
        assert named <= known, rule["alert"]
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= {"queue"}
