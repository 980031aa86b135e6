"""``manage.py jobs_relay --drain``: publish what is staged, then end."""

from __future__ import annotations

import pytest
from django.db import transaction
from pytest_django import Settings

from tests.builders import Declarations, Ping, a_job, sql, staged, states
from tests.commands.manage import manage

pytestmark = pytest.mark.django_db(transaction=True)


def test_draining_publishes_everything_and_says_how_much(declare: Declarations) -> None:
    ping = declare()
    with transaction.atomic():
        ping.enqueue_many([Ping(f"k-{n}") for n in range(1_200)])

    answer = manage("jobs_relay", "--drain")

    assert (answer.code, answer.out) == (0, "published 1200\n")
    assert (len(staged()), states()) == (0, {"ready": 1_200})


def test_draining_nothing_is_fine() -> None:
    answer = manage("jobs_relay", "--drain")

    assert (answer.code, answer.out) == (0, "published 0\n")


def test_draining_goes_on_past_a_pass_that_only_deduplicated(
    declare: Declarations, settings: Settings
) -> None:
    settings.ULTIMATE_JOBS = {"RELAY_BATCH_SIZE": 1}
    ping = declare()
    with transaction.atomic():
        ping.enqueue(Ping("held"))
    with transaction.atomic():
        ping.enqueue(Ping("free"))
    a_job(name=ping.name, idempotency_key="held")

    answer = manage("jobs_relay", "--drain")

    assert (answer.code, answer.out) == (0, "published 1\n")
    assert staged() == []


def test_a_wrong_option_exits_2() -> None:
    answer = manage("jobs_relay", "--batch", "7")

    assert answer.code == 2
    assert "unrecognized arguments" in answer.err


def test_a_row_the_queue_refuses_keeps_neither_the_others_nor_the_command(
    declare: Declarations,
) -> None:
    ping, refused = declare(), declare(name="tests.refused")
    with transaction.atomic():
        ping.enqueue(Ping("a"))
        refused.enqueue(Ping("b"))
        ping.enqueue(Ping("c"))
    sql("ALTER TABLE x_jobs ADD CONSTRAINT not_here CHECK (name <> 'tests.refused')")

    try:
        answer = manage("jobs_relay", "--drain")
    finally:
        sql("ALTER TABLE x_jobs DROP CONSTRAINT not_here")

    assert (answer.code, answer.out) == (0, "published 2\n")
    (left,) = staged()
    assert (left.name, left.refusals) == ("tests.refused", 1)
    assert "not_here" in manage("jobs", "show", str(left.id)).out
