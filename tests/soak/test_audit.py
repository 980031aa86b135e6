"""The soak's rules: a good ending breaks none, and each rule sees the damage it is there for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testproject.soak.audit import RULES, Facts, Minute, Row, audit

GOOD = Facts(
    committed={"p": "plain", "s": "steps", "a": "ask", "b": "book"},
    rolled_back={"ghost"},
    minutes=[Minute(7, "done"), Minute(8, "done")],
    rows=[Row("p", "done", 1), Row("s", "done", 3), Row("a", "done", 2), Row("b", "done", 2)],
    effects={("s", "first"): 3, ("s", "second"): 1, ("a", "ask"): 1, ("b", "book"): 1},
    connections=(2, 2),
    most_connections=10,
    connection_limit=10,
    peak_mb=60,
    memory_limit_mb=250,
    exits={"worker-1": 0, "relay-1": -15},
)


def rows(*changed: Row, without: str = "") -> list[Row]:
    """The good rows, some of them replaced by or joined by others."""
    gone = {without}
    return [row for row in GOOD.rows if row.key not in gone] + list(changed)


def effects(key: str, step: str, times: int) -> dict[tuple[str, str], int]:
    changed = {**GOOD.effects, (key, step): times}
    return {effect: count for effect, count in changed.items() if count}


DAMAGES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "given up": ({"unfinished": "not over"}, {"in_time"}),
    "a job that is gone": ({"rows": rows(without="p")}, {"every_committed_job_is_done_once"}),
    "a job that is there twice": (
        {"rows": rows(Row("p", "done", 1))},
        {"every_committed_job_is_done_once"},
    ),
    "a job that failed": (
        {"rows": rows(Row("p", "dead", 1), without="p")},
        {"every_committed_job_is_done_once"},
    ),
    "a job that never ended": (
        {"rows": rows(Row("p", "ready", 1), without="p")},
        {"every_committed_job_is_done_once"},
    ),
    "a minute that was left out": (
        {"minutes": [Minute(7, "done"), Minute(9, "done")]},
        {"every_minute_is_fired_once"},
    ),
    "a minute that was fired twice": (
        {"minutes": [Minute(7, "done"), Minute(7, "done")]},
        {"every_minute_is_fired_once"},
    ),
    "a minute whose job did not end": (
        {"minutes": [Minute(7, "ready")]},
        {"every_minute_is_fired_once"},
    ),
    "a row that was not published": ({"staged": ["p"]}, {"nothing_waits_in_the_outbox"}),
    "a job of a rolled back transaction": (
        {"rows": rows(Row("ghost", "done", 1))},
        {"nothing_rolled_back_exists"},
    ),
    "an effect of a rolled back transaction": (
        {"effects": effects("ghost", "book", 1)},
        {"nothing_rolled_back_exists"},
    ),
    "a transaction that rolled back and committed": (
        {"rolled_back": {"p"}},
        {"nothing_rolled_back_exists"},
    ),
    "a booking that happened twice": (
        {"effects": effects("b", "book", 2)},
        {"transactions_take_effect_once"},
    ),
    "a booking that did not happen": (
        {"effects": effects("b", "book", 0)},
        {"transactions_take_effect_once"},
    ),
    "a step that did not happen": (
        {"effects": effects("s", "second", 0)},
        {"steps_repeat_only_with_a_claim"},
    ),
    "a step that happened more often than it was claimed": (
        {"effects": effects("s", "first", 4)},
        {"steps_repeat_only_with_a_claim"},
    ),
    "an effect nobody promised": ({"effects": effects("p", "first", 1)}, {"no_effect_is_unknown"}),
    "a claim that is held": (
        {"rows": rows(Row("p", "done", 1, is_held=True), without="p")},
        {"nothing_is_held"},
    ),
    "a concurrency lease": ({"leases": 1}, {"nothing_is_held"}),
    "a step without a run": ({"orphans": 1}, {"every_step_has_a_run"}),
    "a connection more": ({"connections": (2, 3)}, {"no_connection_is_left"}),
    "a process with too many connections": (
        {"most_connections": 11},
        {"connections_are_bounded"},
    ),
    "a process with too much memory": ({"peak_mb": 251}, {"memory_is_bounded"}),
    "a process that left work behind": ({"exits": {"worker-1": 1}}, {"processes_end_well"}),
}


def test_a_good_ending_breaks_no_rule() -> None:
    assert audit(GOOD) == {}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_breaks_its_rule_and_no_other(damage: str) -> None:
    changes, broken = DAMAGES[damage]

    assert audit(replace(GOOD, **changes)).keys() == broken


def test_every_rule_has_a_damage() -> None:
    broken = set().union(*(names for _, names in DAMAGES.values()))

    assert broken == {rule.__name__ for rule in RULES}


def test_what_breaks_a_rule_is_named() -> None:
    broken = audit(replace(GOOD, rows=rows(Row("p", "dead", 4), without="p")))

    assert broken == {"every_committed_job_is_done_once": ["p: ['dead']"]}
