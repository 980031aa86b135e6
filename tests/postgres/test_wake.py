"""Word of new work: what sends it, to whom, how often, and only when it commits.

The channels keep the order of the commits. A probe sent at the end therefore says that everything
before it has come, and what has not come by then never will.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models.functions import Now

from tests.builders import (
    PATIENCE,
    Declarations,
    Ping,
    a_job,
    relay_all,
    rolled_back,
    second_connection,
    sql,
    staged,
)
from ultimate_jobs.core.ids import new_id
from ultimate_jobs.core.records import NewEvent, Notice, Topic
from ultimate_jobs.core.states import JobState
from ultimate_jobs.drivers.base import Listening
from ultimate_jobs.drivers.handler import get_driver
from ultimate_jobs.drivers.postgres import outbox, queue
from ultimate_jobs.models import Job as JobRow, JobStep, OutboxEntry

pytestmark = pytest.mark.django_db(transaction=True)

Heard = Callable[[], list[Notice]]
HOUR = timedelta(hours=1)
NEVER = -HOUR
"""A time to look back that finds nothing."""


def up_to(token: str, session: Listening) -> list[Notice]:
    """Answer what comes before the token has come over both channels."""
    come: list[Notice] = []
    while sum(notice.text == token for notice in come) < len(Topic):
        found = session.receive(PATIENCE)
        assert found, "a probe did not come back"
        come += found
    return [notice for notice in come if notice.text != token]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Listen from now on; a call answers what has come since the last one."""
    session = get_driver().wake.listen()

    def since() -> list[Notice]:
        token = secrets.token_hex()
        second_connection(lambda: get_driver().wake.probe(token)).result(PATIENCE)
        return up_to(token, session)

    yield since
    session.close()


@pytest.fixture
def talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be left out."""
    monkeypatch.setattr(queue, "WAKE_SLOT", NEVER)
    monkeypatch.setattr(queue, "WAKE_PATIENCE", NEVER)
    monkeypatch.setattr(outbox, "WAKE_PATIENCE", NEVER)


def jobs(*queues: str) -> list[Notice]:
    return [Notice(Topic.JOBS, name) for name in queues]


IN_THE_OUTBOX = [Notice(Topic.OUTBOX, "default")]


# What makes a row due


def test_a_batch_is_one_word(heard: Heard, declare: Declarations) -> None:
    declare().enqueue_many([Ping(f"k-{n}") for n in range(50)])

    assert heard() == jobs("default")


def test_what_is_staged_is_told_of_when_it_commits(heard: Heard, declare: Declarations) -> None:
    ping = declare()
    with transaction.atomic():
        ping.enqueue(Ping("a"))
        assert heard() == []

    assert heard() == IN_THE_OUTBOX


def test_a_staged_batch_is_one_word(heard: Heard, declare: Declarations) -> None:
    with transaction.atomic():
        declare().enqueue_many([Ping(f"k-{n}") for n in range(50)])
        assert heard() == []

    assert heard() == IN_THE_OUTBOX


def test_a_pass_of_the_relay_names_each_queue_once(heard: Heard, declare: Declarations) -> None:
    mail, other = declare(queue="mail"), declare(queue="other")
    with transaction.atomic():
        mail.enqueue_many([Ping("a"), Ping("b")])
        other.enqueue(Ping("a"))
        mail.enqueue(Ping("later"), delay="1h")
    heard()
    relay_all()

    assert sorted(heard(), key=lambda notice: notice.text) == jobs("mail", "other")


def test_an_event_names_the_queues_of_the_runs_that_waited_for_it(heard: Heard) -> None:
    for name in ("mail", "mail", "other"):
        run = a_job(JobState.SUSPENDED, queue=name, due_in=HOUR)
        JobStep.objects.create(
            run_id=run.run_id,
            name="wait",
            job_id=run.id,
            position=0,
            status="waiting",
            attempts=0,
            undoable=False,
            started_at=Now(),
            event="paid",
        )
    get_driver().events.publish(
        NewEvent(id=new_id(), name="paid", payload="{}", correlation_key="a", ttl=HOUR)
    )

    assert sorted(heard(), key=lambda notice: notice.text) == jobs("mail", "other")


# How often


def test_a_queue_is_not_told_of_twice_in_a_moment(
    heard: Heard, declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "WAKE_SLOT", HOUR)
    monkeypatch.setattr(queue, "WAKE_PATIENCE", HOUR)
    ping, mail = declare(), declare(queue="mail")
    for key in "abc":
        ping.enqueue(Ping(key))
        mail.enqueue(Ping(key))
        JobRow.objects.update(state="done")

    assert heard() == jobs("default", "mail")


def test_a_job_for_later_silences_nobody(
    heard: Heard, declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "WAKE_SLOT", HOUR)
    monkeypatch.setattr(queue, "WAKE_PATIENCE", HOUR)
    ping = declare()
    ping.enqueue(Ping("a"), delay="1h")
    ping.enqueue(Ping("b"))

    assert heard() == jobs("default")


def test_a_row_that_nobody_has_come_for_yet_is_word_enough(
    heard: Heard, declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "WAKE_SLOT", NEVER)
    monkeypatch.setattr(queue, "WAKE_PATIENCE", HOUR)
    ping = declare()
    ping.enqueue(Ping("a"))
    ping.enqueue(Ping("b"))
    assert heard() == jobs("default")

    ping.enqueue(Ping("c"), priority=5)
    assert heard() == jobs("default"), "those that wait are of another priority"

    JobRow.objects.update(state="done")
    ping.enqueue(Ping("d"))
    assert heard() == jobs("default"), "somebody has come for those"


def test_a_row_that_has_waited_for_long_silences_nobody(
    heard: Heard, declare: Declarations
) -> None:
    a_job(created_at=Now() - HOUR, due_in=-HOUR)
    a_job(created_at=Now() - HOUR, due_in=timedelta(seconds=-0.01))
    declare().enqueue(Ping("a"))

    assert heard() == jobs("default")


def test_a_transaction_that_stages_twice_says_so_once(heard: Heard, declare: Declarations) -> None:
    with transaction.atomic():
        declare().enqueue(Ping("a"))
        declare(queue="mail").enqueue(Ping("a"))

    assert heard() == IN_THE_OUTBOX


def test_a_staged_row_that_waits_is_word_enough(
    heard: Heard, declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "WAKE_PATIENCE", HOUR)
    ping = declare()
    for key in "ab":
        with transaction.atomic():
            ping.enqueue(Ping(key))
    assert heard() == IN_THE_OUTBOX

    OutboxEntry.objects.update(staged_at=Now() - 2 * HOUR)
    with transaction.atomic():
        ping.enqueue(Ping("c"))
    assert heard() == IN_THE_OUTBOX, "those that wait have waited too long"


def test_a_staged_row_that_was_set_aside_silences_nobody(
    heard: Heard, declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "WAKE_PATIENCE", HOUR)
    ping = declare()
    with transaction.atomic():
        ping.enqueue(Ping("a"))
    heard()
    OutboxEntry.objects.update(retry_at=Now() + HOUR)
    with transaction.atomic():
        ping.enqueue(Ping("b"))

    assert heard() == IN_THE_OUTBOX


def test_who_is_rolled_back_silences_nobody(
    heard: Heard, declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "WAKE_PATIENCE", HOUR)
    ping = declare()

    def stage_beside() -> None:
        with transaction.atomic():
            ping.enqueue(Ping("b"))

    with rolled_back():
        ping.enqueue(Ping("a"))
        second_connection(stage_beside).result(PATIENCE)

    assert heard() == IN_THE_OUTBOX
    assert len(staged()) == 1


# The session


def test_a_probe_comes_back_over_both_channels() -> None:
    session = get_driver().wake.listen()
    try:
        get_driver().wake.probe("token")
        come: list[Notice] = []
        while len(come) < len(Topic):
            come += session.receive(PATIENCE)
    finally:
        session.close()

    assert {notice.topic for notice in come} == set(Topic)
    assert {notice.text for notice in come} == {"token"}


def test_tables_of_another_schema_have_channels_of_their_own(heard: Heard) -> None:
    sql("CREATE SCHEMA elsewhere")
    try:
        sql("CREATE TABLE elsewhere.x_jobs (id int)")
        sql("CREATE TABLE elsewhere.x_outbox (id int)")
        sql("SET search_path TO elsewhere")
        get_driver().wake.probe("of another installation")
    finally:
        sql("RESET search_path")
        sql("DROP SCHEMA elsewhere CASCADE")

    assert heard() == []


def test_the_session_is_one_of_its_own_and_says_what_it_is_for() -> None:
    session = get_driver().wake.listen()
    try:
        names = sql(
            "SELECT application_name FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE '%% (wake)'"
        )
    finally:
        session.close()

    assert names == [("ultimate_jobs (wake)",)]
