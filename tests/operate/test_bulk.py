"""Verbs over many jobs: bounded, repeatable, and never past what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.builders import a_job, at_once, reloaded, some_jobs, sql, states
from ultimate_jobs.core.selection import Selection
from ultimate_jobs.core.states import LIVE, TERMINAL, JobState
from ultimate_jobs.errors import InvariantError, PageInvalid, SelectionInvalid
from ultimate_jobs.models import Job as JobRow, JobStep
from ultimate_jobs.operate import bulk, search
from ultimate_jobs.operate.bulk import (
    Bounds,
    Bulk,
    cancel_jobs,
    promote_jobs,
    remove_jobs,
    retry_jobs,
)
from ultimate_jobs.tenancy import Actor, acting_as

pytestmark = pytest.mark.django_db(transaction=True)

DEAD = Selection(states=(JobState.DEAD,))
LATER = timedelta(hours=1)

VERBS: dict[str, tuple[Callable[..., Bulk], frozenset[JobState]]] = {
    "retry": (retry_jobs, TERMINAL),
    "cancel": (cancel_jobs, LIVE),
    "promote": (promote_jobs, frozenset({JobState.DELAYED, JobState.READY})),
    "remove": (remove_jobs, frozenset(JobState) - {JobState.RUNNING}),
}

every_verb = pytest.mark.parametrize("verb", VERBS)


@every_verb
def test_a_verb_acts_on_the_states_it_can(verb: str) -> None:
    act, able = VERBS[verb]
    for state in JobState:
        a_job(state, due_in=LATER)

    done = act(Selection(), Bounds(everything=True), by="ada")

    assert (done.verb, done.by, done.dry_run) == (verb, "ada", False)
    assert done.affected == len(done.jobs) == len(able)
    assert (done.remaining, done.capped, done.next) == (0, False, None)


@every_verb
def test_a_verb_that_may_move_two_moves_two_on_stale_statistics(verb: str) -> None:
    act, able = VERBS[verb]
    state = JobState.READY if JobState.READY in able else JobState.DEAD
    a_job(state, due_in=LATER)
    sql("VACUUM ANALYZE x_jobs")
    some_jobs(40, state, due_in=LATER)

    done = act(Selection(states=(state,)), Bounds(limit=2), by="ada")

    assert (len(done.jobs), done.remaining) == (2, 39)


@every_verb
def test_a_state_that_the_verb_cannot_act_on_is_refused(verb: str) -> None:
    act, able = VERBS[verb]
    for state in frozenset(JobState) - able:
        with pytest.raises(SelectionInvalid) as caught:
            act(Selection(states=(state,)))
        assert caught.value.code == "X_JOB_SELECTION_INVALID"


@every_verb
def test_a_selection_without_a_condition_is_refused(verb: str) -> None:
    some_jobs(3)
    before = states()

    with pytest.raises(SelectionInvalid):
        VERBS[verb][0](Selection())
    assert states() == before


@pytest.mark.parametrize("limit", [0, 1_001])
def test_a_call_acts_on_1_to_1000_jobs(limit: int) -> None:
    with pytest.raises(InvariantError):
        retry_jobs(DEAD, Bounds(limit=limit))


def test_repeated_until_nothing_remains_every_job_is_moved_once() -> None:
    some_jobs(7, JobState.DEAD)
    left = []

    while True:
        done = retry_jobs(DEAD, Bounds(limit=3))
        left.append((done.affected, done.remaining))
        if not done.remaining:
            break

    assert left == [(3, 4), (3, 1), (1, 0)]
    assert states() == {"ready": 7}


def test_a_dry_run_changes_nothing_and_says_what_one_call_would_do() -> None:
    rows = some_jobs(14, JobState.DEAD)

    would = retry_jobs(DEAD, Bounds(limit=12, dry_run=True))

    assert (would.affected, would.remaining, would.jobs) == (12, 2, ())
    assert [job["id"] for job in would.sample] == [str(row.id) for row in reversed(rows[4:])]
    assert states() == {"dead": 14}
    assert retry_jobs(DEAD, Bounds(limit=12)).affected == 12


def test_a_retry_resets_the_attempts_and_makes_the_job_due() -> None:
    row = a_job(JobState.DEAD, attempt=3, due_in=LATER, result={"a": 1}, last_error="boom")

    retry_jobs(DEAD)

    now = reloaded(row)
    assert (now.state, now.attempt, now.result, now.last_error) == ("ready", 0, None, "boom")
    ((due,),) = sql("SELECT run_at <= now() FROM x_jobs")
    assert due


def test_a_retry_leaves_what_a_live_job_with_the_same_key_holds_up() -> None:
    blocked = a_job(JobState.DEAD, idempotency_key="k")
    a_job(JobState.READY, idempotency_key="k")
    other = a_job(JobState.DEAD, idempotency_key="k", tenant_id="acme")

    done = retry_jobs(DEAD)

    assert done.jobs == (other.id,)
    assert (done.affected, done.remaining) == (1, 0)
    assert reloaded(blocked).state == "dead"


def test_of_several_with_one_key_the_newest_is_retried() -> None:
    old, new = (a_job(JobState.DEAD, idempotency_key="k") for _ in range(2))

    done = retry_jobs(DEAD)

    assert (done.jobs, done.remaining) == ((new.id,), 0)
    assert reloaded(old).state == "dead"


def test_two_operators_who_retry_at_once_move_every_job_once() -> None:
    some_jobs(20, JobState.DEAD)

    one, other = at_once(lambda: retry_jobs(DEAD), lambda: retry_jobs(DEAD))

    assert sorted([*one.jobs, *other.jobs]) == sorted(row.id for row in JobRow.objects.all())
    assert states() == {"ready": 20}


def test_a_cancel_ends_what_waits_and_what_runs_with_its_reason() -> None:
    rows = [a_job(state) for state in sorted(LIVE)]
    done = a_job(JobState.DONE)

    answer = cancel_jobs(Selection(queue="default"), reason="not needed")

    assert (answer.affected, answer.reason) == (4, "not needed")
    for row in rows:
        now = reloaded(row)
        assert (now.state, now.last_error, now.claimed_by) == ("cancelled", "not needed", None)
    assert reloaded(done).state == "done"


def test_a_promotion_leaves_what_is_due_and_what_sleeps() -> None:
    waits = [a_job(JobState.DELAYED, due_in=LATER), a_job(JobState.READY, due_in=LATER)]
    a_job(JobState.READY)
    asleep = a_job(JobState.SUSPENDED, due_in=LATER)

    done = promote_jobs(Selection(queue="default"))

    assert sorted(done.jobs) == sorted(row.id for row in waits)
    assert reloaded(asleep).run_at == asleep.run_at


def test_a_removal_takes_the_steps_along() -> None:
    gone, kept = a_job(JobState.DONE), a_job(JobState.DEAD)
    for row in (gone, kept):
        JobStep.objects.create(
            run_id=row.run_id, name="charge", job_id=row.id, position=1, status="completed"
        )

    remove_jobs(Selection(states=(JobState.DONE,)))

    assert [row.id for row in JobRow.objects.all()] == [kept.id]
    assert [step.job_id for step in JobStep.objects.all()] == [kept.id]


SELECTIONS = {
    "ids": lambda row: Selection(ids=(row.id,)),
    "queue": lambda row: Selection(queue="mail"),
    "name": lambda row: Selection(name="app.other"),
    "tenant": lambda row: Selection(tenant="acme"),
    "key": lambda row: Selection(key="k-1"),
    "related": lambda row: Selection(related=(1, "7")),
    "error": lambda row: Selection(error_like="100% OF_IT"),
    "age": lambda row: Selection(older_than=timedelta(days=2)),
}


@pytest.mark.parametrize("condition", SELECTIONS)
def test_every_condition_is_kept(condition: str) -> None:
    wanted = a_job(
        JobState.DEAD,
        queue="mail",
        name="app.other",
        tenant_id="acme",
        idempotency_key="k-1",
        related_type_id=1,
        related_id="7",
        last_error="ValueError: lost 100% of_it",
    )
    sql("UPDATE x_jobs SET created_at = now() - interval '3 days'")
    a_job(JobState.DEAD, last_error="ValueError: lost 100 of it, and 100% ofXit")

    assert retry_jobs(SELECTIONS[condition](wanted)).jobs == (wanted.id,)


def test_what_lies_behind_the_window_is_said_and_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "WINDOW", 4)
    old = some_jobs(3, JobState.DEAD, queue="mail")
    some_jobs(6, JobState.DEAD)
    wanted = Selection(states=(JobState.DEAD,), queue="mail")

    first = remove_jobs(wanted)
    second = remove_jobs(wanted, Bounds(after=first.next))
    third = remove_jobs(wanted, Bounds(after=second.next))

    assert (first.affected, first.remaining, first.capped) == (0, 0, True)
    assert second.capped
    assert sorted([*second.jobs, *third.jobs]) == sorted(row.id for row in old)
    assert (third.capped, third.next) == (False, None)


def test_a_cursor_of_another_selection_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "WINDOW", 2)
    some_jobs(6, JobState.DEAD)
    first = retry_jobs(Selection(states=(JobState.DEAD,), queue="mail"), Bounds(dry_run=True))

    with pytest.raises(PageInvalid):
        retry_jobs(Selection(states=(JobState.DEAD,), queue="post"), Bounds(after=first.next))


def test_more_ids_than_a_call_moves_are_refused() -> None:
    row = a_job(JobState.DEAD)

    with pytest.raises(SelectionInvalid):
        retry_jobs(Selection(ids=(row.id,) * (bulk.MAX_BULK_ROWS + 1)))


def test_whoever_is_at_work_is_named_and_what_was_asked_for() -> None:
    a_job(JobState.DEAD)

    with acting_as(Actor(id="u-7")):
        done = retry_jobs(Selection(queue="default", older_than=timedelta(0)))

    assert done.by == "u-7"
    assert done.selection == {"queue": "default", "older_than_seconds": 0.0}
