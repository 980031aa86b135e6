"""What is live and what is ready."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ultimate_jobs.conf import Settings
from ultimate_jobs.process.pulse import Pulse, Vitals
from ultimate_jobs.supervise.health import STUCK_AFTER, Member, judge, ready_within
from ultimate_jobs.supervise.serving import source_of

WITHIN = 32.0
WELL = Vitals("worker", "running", 0.0, database=True, database_seconds=1.0)
HERE = Member("worker-1", 11, [WELL])


def verdict(*members: Member) -> tuple[bool, bool]:
    found = judge(members, WITHIN)
    assert (found.document["live"], found.document["ready"]) == (found.live, found.ready)
    return found.live, found.ready


LIVE_AND_READY, LIVE, DEAD = (True, True), (True, False), (False, False)


@pytest.mark.parametrize(
    ("vitals", "wanted"),
    [
        (WELL, LIVE_AND_READY),
        (replace(WELL, state="quiet"), LIVE),
        (replace(WELL, state="draining"), LIVE),
        (replace(WELL, state="starting", database=False, database_seconds=None), LIVE),
        (replace(WELL, database=False), LIVE),
        (replace(WELL, database=False, database_seconds=1e6), LIVE),
        (replace(WELL, database_seconds=WITHIN), LIVE_AND_READY),
        (replace(WELL, database_seconds=WITHIN + 1), LIVE),
        (replace(WELL, overdue_seconds=STUCK_AFTER), LIVE_AND_READY),
        (replace(WELL, overdue_seconds=STUCK_AFTER + 1), DEAD),
    ],
)
def test_one_loop_decides(vitals: Vitals, wanted: tuple[bool, bool]) -> None:
    assert verdict(Member("worker", 11, [vitals])) == wanted
    assert verdict(Member("worker", 11, [WELL, vitals])) == wanted, "so does the one beside it"
    assert verdict(HERE, Member("relay", 12, [vitals])) == wanted, "and one in another process"


def test_a_child_that_is_being_replaced_is_live_and_not_ready() -> None:
    assert verdict(HERE, Member("worker-2", None)) == LIVE
    assert verdict(HERE, Member("worker-2", None, [WELL])) == LIVE


def test_a_child_that_has_not_reported_yet_is_live_and_not_ready() -> None:
    assert verdict(Member("worker-1", 11)) == LIVE


def test_a_child_that_falls_silent_is_stuck_in_the_end() -> None:
    assert verdict(replace(HERE, silent_seconds=WITHIN + 1)) == LIVE
    assert verdict(replace(HERE, silent_seconds=STUCK_AFTER + 1)) == DEAD
    assert verdict(Member("worker-1", 11, silent_seconds=STUCK_AFTER + 1)) == DEAD


def test_the_document_adds_up() -> None:
    one = replace(WELL, in_flight=2, processed=10, database_seconds=0.5)
    other = replace(WELL, in_flight=1, processed=5, database_seconds=3.0)

    found = judge([Member("worker-1", 11, [one]), Member("worker-2", 12, [other])], WITHIN).document

    assert (found["state"], found["in_flight"], found["processed"]) == ("running", 3, 15)
    assert found["database_seconds"] == 3.0


def test_the_document_says_when_loops_differ_or_have_not_begun() -> None:
    quiet = replace(WELL, state="quiet", database_seconds=None)

    mixed = judge([HERE, Member("worker-2", 12, [quiet])], WITHIN).document
    begun = judge([Member("worker-1", 11)], WITHIN).document

    assert (mixed["state"], mixed["database_seconds"]) == ("mixed", None)
    assert (begun["state"], begun["database_seconds"]) == ("starting", None)


def test_a_full_worker_and_an_idle_one_both_ask_often_enough_to_be_ready() -> None:
    settings = Settings(
        visibility_timeout=timedelta(seconds=30), idle_poll_max=timedelta(seconds=9)
    )

    assert ready_within(settings) > settings.beat_every.total_seconds()
    assert ready_within(settings) > settings.idle_poll_max.total_seconds()


def test_a_process_judges_the_loops_it_runs() -> None:
    now = 100.0
    worker, relay = Pulse("worker", lambda: now), Pulse("relay", lambda: now)
    source = source_of([worker, relay], Settings())
    for pulse in (worker, relay):
        pulse.answered()
        pulse.turn(60.0)
    assert (source().live, source().ready) == (True, True)

    now += 61
    worker.answered()
    worker.turn(60.0)
    assert (source().live, source().ready) == (True, False), "the relay has not asked for long"

    now += STUCK_AFTER
    assert (source().live, source().ready) == (False, False)
