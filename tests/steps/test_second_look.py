"""A second look that comes late, or never, leaves no run to its poll."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from tests.builders import PATIENCE, Declarations, Ping, second_connection, sql, wait_for_blocked
from tests.steps.runs import row, start, state, work
from tests.steps.test_event_races import Publisher
from tests.steps.wire import Say, hooked
from ultimate_jobs import Run, publish_event
from ultimate_jobs.drivers.handler import get_driver

pytestmark = pytest.mark.django_db(transaction=True)


def waits_for_its_payment(run: Run[Ping]) -> Any:
    run.step("order", lambda: None)
    return run.wait_for_event("payment", "paid", schema=dict)


def test_a_run_that_was_not_looked_at_again_falls_due_in_a_second(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued = start(declare(waits_for_its_payment))
    with monkeypatch.context() as dying:
        dying.setattr(type(get_driver().steps), "look_again", lambda self, waits: [])
        work()

    ((due_in,),) = sql("SELECT extract(epoch FROM run_at - now()) FROM x_jobs")
    assert state(queued) == "suspended"
    assert due_in <= 1

    second_connection(lambda: publish_event("paid", {"amount": 7})).result(PATIENCE)
    work()
    assert row(queued).result == {"amount": 7}


def test_an_event_that_meets_a_late_second_look_makes_the_run_due_all_the_same(
    declare: Declarations,
) -> None:
    queued = start(declare(waits_for_its_payment))
    work()
    sql("UPDATE x_jobs SET run_at = now() - interval '1 second'")

    with transaction.atomic():
        get_driver().steps.look_again([(queued.id, timedelta(minutes=15))])
        publishing = second_connection(lambda: publish_event("paid", {"amount": 7}))
        wait_for_blocked()

    assert publishing.result(PATIENCE) == 1
    work()
    assert row(queued).result == {"amount": 7}


def test_an_event_that_is_committed_between_the_question_and_the_look_is_found(
    declare: Declarations,
) -> None:
    publisher = Publisher()
    publisher.publish()
    queued = start(declare(waits_for_its_payment))

    def commit_first(name: str, say: Say) -> Any:
        if name == "STEP_LOOK_AGAIN":
            publisher.commit()
        return say()

    with hooked(commit_first):
        work()

    assert row(queued).result == {"amount": 7}


def test_a_late_second_look_leaves_a_run_that_a_publish_has_found_due(
    declare: Declarations,
) -> None:
    publisher = Publisher()
    queued = start(declare(waits_for_its_payment))
    work()
    sql("UPDATE x_jobs SET run_at = now() - interval '1 second'")

    def commit_once_the_look_waits() -> None:
        wait_for_blocked()
        publisher.commit()

    def publish_meanwhile(name: str, say: Say) -> Any:
        answer = say()
        if name == "EVENT_PUBLISHING":
            publisher.publish()
            second_connection(commit_once_the_look_waits)
        return answer

    with hooked(publish_meanwhile):
        assert get_driver().steps.look_again([(queued.id, timedelta(minutes=15))]) == []

    work()
    assert row(queued).result == {"amount": 7}
