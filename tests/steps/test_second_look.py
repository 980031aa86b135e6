"""A worker that dies before the second look leaves no run to its poll."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import PATIENCE, Declarations, Ping, second_connection, sql
from tests.steps.runs import row, start, state, work
from ultimate_jobs import Run, publish_event
from ultimate_jobs.drivers.handler import get_driver

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_that_was_not_looked_at_again_falls_due_in_a_second(
    declare: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    def body(run: Run[Ping]) -> Any:
        run.step("order", lambda: None)
        return run.wait_for_event("payment", "paid", schema=dict)

    queued = start(declare(body))
    with monkeypatch.context() as dying:
        dying.setattr(type(get_driver().steps), "look_again", lambda self, waits: [])
        work()

    ((due_in,),) = sql("SELECT extract(epoch FROM run_at - now()) FROM x_jobs")
    assert state(queued) == "suspended"
    assert due_in <= 1

    second_connection(lambda: publish_event("paid", {"amount": 7})).result(PATIENCE)
    work()
    assert row(queued).result == {"amount": 7}
