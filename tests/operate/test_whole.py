"""The whole at a glance, pauses, dead letters, counters, health, settings and statements."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from tests.builders import Declarations, Ping, a_job, a_worker, claim, some_jobs, sql
from tests.commands.manage import manage
from ultimate_jobs import Retry
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.errors import (
    InvariantError,
    JobNameUnknown,
    JobNotPromotable,
    JobNotRemovable,
    JobUnknown,
    UsageInvalid,
)
from ultimate_jobs.models import Counter, Job as JobRow
from ultimate_jobs.operate import overview
from ultimate_jobs.operate.configuration import effective
from ultimate_jobs.operate.counters import PERIODS, counter_buckets, counters, totals
from ultimate_jobs.operate.dead import dead_groups, dead_letters
from ultimate_jobs.operate.descriptions import describe_job, describe_jobs
from ultimate_jobs.operate.health import Limits, health
from ultimate_jobs.operate.overview import outbox_backlog, queue_stats, staged_rows
from ultimate_jobs.operate.pauses import pause_queue, pauses, resume_queue
from ultimate_jobs.operate.statements import statement, statement_names
from ultimate_jobs.operate.verbs import promote_job, remove_job
from ultimate_jobs.operate.workers import workers

pytestmark = pytest.mark.django_db(transaction=True)

LATER, AGO = timedelta(hours=1), timedelta(minutes=-5)


# Queues


def test_the_counts_of_a_queue_exclude_each_other() -> None:
    a_job(JobState.READY, due_in=AGO)
    a_job(JobState.DELAYED, due_in=AGO, priority=-3)
    a_job(JobState.READY, due_in=LATER)
    a_job(JobState.DELAYED, due_in=LATER)
    a_job(JobState.SUSPENDED, due_in=LATER)
    for state in (JobState.RUNNING, JobState.FAILED, JobState.DEAD, JobState.DONE):
        a_job(state)
    a_job(queue="mail", due_in=LATER)
    pause_queue("quiet", by="ada", reason="migration")

    default, mail, quiet = queue_stats()

    assert default["queue"] == "default"
    assert {kind: default[kind] for kind in ("ready", "delayed", "suspended", "running")} == {
        "ready": 2,
        "delayed": 2,
        "suspended": 1,
        "running": 1,
    }
    assert (default["failed"], default["dead"], default["capped"]) == (1, 1, False)
    assert 300 <= default["oldest_ready_seconds"] < 3_600
    assert (mail["delayed"], mail["oldest_ready_seconds"]) == (1, None)
    assert (quiet["ready"], quiet["paused"]["reason"]) == (0, "migration")


def test_a_job_that_stands_by_for_a_slot_is_counted_apart_and_says_so() -> None:
    capped: dict[str, Any] = {"lease_key": "job:tests.ping", "blocked": True}
    first = a_job(JobState.READY, due_in=AGO, **capped)
    a_job(JobState.SUSPENDED, due_in=AGO, **capped)
    a_job(JobState.CANCELLED, **capped)
    a_job(JobState.READY, queue="mail", due_in=AGO, **capped)
    a_job(JobState.READY, due_in=LATER)

    default, mail = queue_stats()

    kinds = ("ready", "delayed", "standing_by", "suspended")
    assert [default[kind] for kind in kinds] == [0, 1, 2, 0]
    assert [mail[kind] for kind in kinds] == [0, 0, 1, 0]
    assert default["oldest_ready_seconds"] is None
    page = manage("jobs", "list", "--state", "ready,suspended", "--json").document
    assert page["counts"]["standing_by"] == 3
    assert [job["standing_by"] for job in page["jobs"]] == [False, True, True, True]
    shown = manage("jobs", "show", str(first.id), "--json").document
    assert (shown["state"], shown["standing_by"]) == ("ready", True)
    assert shown["lease_key"] == "job:tests.ping"
    (cancelled,) = manage("jobs", "list", "--state", "cancelled", "--json").document["jobs"]
    assert cancelled["standing_by"] is False
    assert "standing by" in manage("jobs", "list", "--queue", "mail").out
    assert "standing by" in manage("jobs", "stats").out


def test_a_count_that_reached_its_cap_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "CAP", 3)
    some_jobs(5)

    (default,) = queue_stats()

    assert (default["ready"], default["capped"]) == (3, True)


def test_the_oldest_ready_is_found_behind_more_urgent_ones() -> None:
    some_jobs(3, priority=9)
    a_job(due_in=AGO, priority=-9)
    some_jobs(3, priority=5, due_in=LATER)

    (default,) = queue_stats()

    assert default["oldest_ready_seconds"] >= 300


# Pauses


def test_a_paused_queue_is_not_claimed_from_until_it_is_resumed() -> None:
    row = a_job()
    paused = pause_queue("default", by="ada", reason="migration")
    again = pause_queue("default", by="bob", reason="mine")

    assert (paused.details["changed"], again.details["changed"]) == (True, False)
    (pause,) = pauses()
    assert (pause["name"], pause["paused_by"], pause["reason"]) == ("default", "ada", "migration")
    assert not claim(row.name).jobs

    assert resume_queue("default", by="ada").details["changed"]
    assert not resume_queue("default").details["changed"]
    assert [job.id for job in claim(row.name).jobs] == [row.id]


@pytest.mark.parametrize("name", ["", "x" * 201, "a\x00b"], ids=["empty", "long", "no text"])
def test_a_queue_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(InvariantError):
        pause_queue(name)
    assert pauses() == []


# One job


def test_a_promoted_job_is_due() -> None:
    row = a_job(JobState.DELAYED, due_in=LATER)

    act = promote_job(str(row.id), by="ada")

    assert (act.verb, act.jobs, act.by) == ("promote", (row.id,), "ada")
    assert [job.id for job in claim(row.name).jobs] == [row.id]


@pytest.mark.parametrize("state", sorted(set(JobState) - {JobState.DELAYED}))
def test_what_does_not_wait_for_its_time_is_not_promoted(state: JobState) -> None:
    row = a_job(state)

    with pytest.raises(JobNotPromotable) as caught:
        promote_job(str(row.id))
    assert state in caught.value.cause


def test_a_running_job_is_not_removed_and_any_other_is() -> None:
    for state in JobState:
        row = a_job(state)
        if state is JobState.RUNNING:
            with pytest.raises(JobNotRemovable):
                remove_job(str(row.id))
        else:
            assert remove_job(str(row.id)).jobs == (row.id,)

    assert [row.state for row in JobRow.objects.all()] == ["running"]
    with pytest.raises(JobUnknown):
        remove_job("00000000-0000-7000-8000-000000000000")


# Dead letters


def test_dead_letters_are_grouped_by_what_they_have_in_common() -> None:
    for n in range(3):
        a_job(JobState.DEAD, last_error=f"ValueError: order {n} is gone\n  File x, line {n}")
    a_job(JobState.DEAD, last_error="KeyError: 'ada'", queue="mail")
    a_job(JobState.FAILED, last_error="KeyError: 'ada'")

    found = dead_groups()

    assert (found["complete"], len(found["groups"])) == (True, 2)
    first, second = found["groups"]
    assert (first["count"], first["signature"]) == (3, "ValueError: order <n> is gone")
    assert first["retry"] == (
        "manage.py jobs retry --state dead --name tests.ping --queue default"
        " --error-like 'ValueError: order'"
    )
    assert second["queue"] == "mail"
    assert [group["count"] for group in dead_groups("mail")["groups"]] == [1]


def test_the_line_that_retries_jobs_without_an_error_asks_for_none() -> None:
    a_job(JobState.DEAD)

    (group,) = dead_groups()["groups"]

    assert (group["signature"], group["retry"]) == (
        "(no error)",
        "manage.py jobs retry --state dead --name tests.ping --queue default",
    )


def test_each_dead_letter_has_the_line_that_retries_it() -> None:
    row = a_job(JobState.DEAD, last_error="boom", attempt=3)

    (letter,) = dead_letters()

    assert letter["retry"] == f"manage.py jobs retry {row.id}"
    assert (letter["id"], letter["attempt"]) == (str(row.id), 3)


# Outbox, workers, counters


def test_the_backlog_says_how_much_waits_and_for_how_long(declare: Declarations) -> None:
    assert outbox_backlog() == {
        "waiting": 0,
        "refused": 0,
        "oldest_seconds": None,
        "capped": False,
    }
    with transaction.atomic():
        declare().enqueue_many([Ping("a"), Ping("b")])
    sql("UPDATE x_outbox SET staged_at = now() - interval '1 hour' WHERE idempotency_key = 'a'")

    backlog = outbox_backlog()

    assert (backlog["waiting"], backlog["refused"]) == (2, 0)
    assert backlog["oldest_seconds"] >= 3_600
    assert [row["idempotency_key"] for row in staged_rows()] == ["a", "b"]
    assert len(staged_rows(1)) == 1


def test_a_worker_is_alive_while_its_sign_of_life_holds() -> None:
    a_worker("w-1")
    a_worker("w-2", alive_for=timedelta(seconds=-1))

    assert {row["id"]: row["alive"] for row in workers()} == {"w-1": True, "w-2": False}


def test_a_worker_is_drawn_with_how_many_it_runs_and_documented_with_which() -> None:
    a_worker("w-1")
    sql(
        "UPDATE x_job_workers SET host = 'web-1', pid = 7, state = 'running', concurrency = 4,"
        """ queues = '["mail", "default"]', running = '["id-a", "id-b"]'"""
    )

    (row,) = manage("jobs", "workers", "--json").document["workers"]
    drawn = manage("jobs", "workers").out.splitlines()[1].split()

    assert (row["host"], row["pid"], row["state"], row["concurrency"]) == ("web-1", 7, "running", 4)
    assert (row["queues"], row["running"]) == (["mail", "default"], ["id-a", "id-b"])
    assert drawn[:8] == ["w-1", "web-1", "7", "running", "mail,", "default", "4", "2"]


def test_counters_sum_up_their_shards() -> None:
    for shard in range(3):
        Counter.objects.create(bucket=_ago("10 minutes"), name="a", shard=shard, done=2, dead=1,
                               duration_ms=300)  # fmt: skip
    Counter.objects.create(bucket=_ago("2 hours"), name="a", done=5)
    Counter.objects.create(bucket=_ago("10 minutes"), name="b", done=1, duration_ms=7)

    assert counters("1h") == [
        {"name": "a", "done": 6, "retried": 0, "failed": 0, "dead": 3, "duration_ms": 900,
         "mean_ms": 100},
        {"name": "b", "done": 1, "retried": 0, "failed": 0, "dead": 0, "duration_ms": 7,
         "mean_ms": 7},
    ]  # fmt: skip
    assert totals("24h")["done"] == 12
    assert [bucket["done"] for bucket in counter_buckets("24h", "a")] == [5, 6]
    assert totals("30d", "nobody")["mean_ms"] is None
    assert list(PERIODS) == ["1h", "24h", "7d", "30d"]
    with pytest.raises(InvariantError):
        counters("1y")


def _ago(span: str) -> datetime:
    ((instant,),) = sql("SELECT date_trunc('minute', now() - %s::interval)", [span])
    assert isinstance(instant, datetime)
    return instant


# Health


@pytest.mark.parametrize(
    ("limits", "passed"),
    [
        (Limits(), []),
        (Limits(max_oldest=timedelta(minutes=1)), ["max_oldest"]),
        (Limits(max_oldest=timedelta(days=1)), []),
        (Limits(max_dead=1), ["max_dead"]),
        (Limits(max_dead=2), []),
        (Limits(max_dead=1, queues=("mail",)), []),
        (Limits(max_outbox_age=timedelta(minutes=1)), ["max_outbox_age"]),
        (Limits(max_outbox_age=timedelta(days=1)), []),
    ],
)
def test_health_compares_with_the_limits(
    declare: Declarations, limits: Limits, passed: list[str]
) -> None:
    a_job(due_in=AGO)
    some_jobs(2, JobState.DEAD)
    with transaction.atomic():
        declare().enqueue(Ping("a"))
    sql("UPDATE x_outbox SET staged_at = now() - interval '1 hour'")

    found = health(limits)

    assert [problem["limit"] for problem in found["problems"]] == passed
    assert found["healthy"] == (not passed)


# What is declared and set


def test_every_setting_has_its_value_and_origin(settings: Settings) -> None:
    settings.ULTIMATE_JOBS = {"CONCURRENCY": 4, "QUEUES": ["a"], "DRAIN_TIMEOUT": "1m"}

    def origins(**said: tuple[object, str]) -> dict[str, tuple[object, str]]:
        return {row["setting"]: (row["value"], row["origin"]) for row in effective(said)}

    assert origins()["CONCURRENCY"] == (4, "setting")
    assert origins()["QUEUES"] == (["a"], "setting")
    assert origins()["DRAIN_TIMEOUT"] == (60.0, "setting")
    assert origins()["OUTBOX"] == ("auto", "default")
    assert origins(queues=(["b"], "WORKER_QUEUES"))["QUEUES"] == (["b"], "WORKER_QUEUES")


def test_the_command_says_which_flag_or_variable_goes_before_a_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORKER_QUEUES", "b,c")

    flags = ("--concurrency", "2", "--shutdown-timeout", "1m")
    answer = manage("jobs", "config", *flags, "--json").document

    said = {row["setting"]: (row["value"], row["origin"]) for row in answer["settings"]}
    assert said["DRAIN_TIMEOUT"] == (60.0, "--shutdown-timeout")
    assert said["QUEUES"] == (["b", "c"], "WORKER_QUEUES")
    assert said["CONCURRENCY"] == (2, "--concurrency")


def test_mappings_and_limits_are_plain_values(settings: Settings) -> None:
    settings.ULTIMATE_JOBS = {
        "QUEUE_CONCURRENCY": {"mail": 2},
        "LIMITS": {"per_tenant": 3, "rate_per_tenant": (100, "1m")},
    }

    answer = manage("jobs", "config", "--json").document

    said = {row["setting"]: row["value"] for row in answer["settings"]}
    assert said["QUEUE_CONCURRENCY"] == {"mail": 2}
    assert said["LIMITS"] == {
        "per_tenant": 3,
        "per_queue": None,
        "overall": None,
        "rate_per_tenant": [100, "1m"],
    }


def test_the_command_says_which_parts_of_queues_go_before_the_setting(settings: Settings) -> None:
    settings.ULTIMATE_JOBS = {"QUEUE_CONCURRENCY": {"mail": 5, "slow": 1}}

    answer = manage("jobs", "config", "--queues", "a,mail=2", "--json").document

    said = {row["setting"]: (row["value"], row["origin"]) for row in answer["settings"]}
    assert said["QUEUES"] == (["a", "mail"], "--queues")
    assert said["QUEUE_CONCURRENCY"] == ({"mail": 2, "slow": 1}, "--queues")


def test_a_declaration_is_described_with_its_waits_and_its_schema(declare: Declarations) -> None:
    ping = declare(retry=Retry(attempts=3, delay="2s", jitter=False), queue="mail", timeout="1m")

    found = describe_job(ping.name)

    assert found in describe_jobs()
    assert (found["queue"], found["timeout_seconds"]) == ("mail", 60.0)
    assert found["retry"]["delays"] == [2.0, 4.0]
    assert "key" in found["input"]["$defs"]["Ping"]["properties"]
    with pytest.raises(JobNameUnknown) as caught:
        describe_job(f"{ping.name}x")
    assert ping.name in caught.value.cause


def test_a_statement_is_found_by_its_name_and_printed_as_it_is_sent() -> None:
    claimed = statement("claim")

    assert claimed == statement("queue/claim")
    assert {"name": "queues", "type": "text[]"} in claimed["parameters"]
    assert claimed["sql"].startswith("-- Take due rows")
    assert "%%" not in statement("choose")["sql"]
    assert [row["name"] for row in statement_names()] == list(get_driver().operator.statements())
    for name in ("nothing", "queue"):
        with pytest.raises(UsageInvalid):
            statement(name)
