"""Schedulers over the hours in which clocks are moved, minute by minute, each begun anew every quarter."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.builders import Declarations
from tests.core.test_cron import at, table
from tests.scheduler.virtual import Clock, Tasks, fired, worked_off

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = timedelta(minutes=40)
WALK = timedelta(minutes=200)
MOVED = [row for row in table("cron-expected.csv") if row["row"].startswith(("fb", "sf"))]


@pytest.mark.parametrize("row", MOVED, ids=lambda row: row["row"])
def test_a_schedule_fires_once_as_the_table_says_whoever_leads(
    row: dict[str, str], declare: Declarations, declare_task: Tasks
) -> None:
    ping = declare()
    task = declare_task(ping, row["expr"], tz=row["tz"])
    expected = [at(text) for text in row["expect_next_utc"].split()]
    began = max(at(row["from_utc_exclusive"]), expected[0] - BEFORE)
    ended = min(began + WALK, expected[-1])
    clock = Clock(began)
    scheduler = clock.scheduler(task)

    for minute in range((ended - began) // timedelta(minutes=1) + 1):
        if minute % 15 == 14:
            scheduler = clock.scheduler(task)
        scheduler.tick()
        worked_off()  # no key is held any more
        clock.advance(minutes=1)

    assert fired(ping) == [one for one in expected if began < one <= ended]
