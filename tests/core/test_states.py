"""The state machine: what the table allows, and that nothing else happens."""

from __future__ import annotations

import itertools

import pytest

from ultimate_jobs.core.states import (
    LIVE,
    MOVES,
    TERMINAL,
    WAITING,
    JobState,
    Verb,
    state_of,
    target_of,
)
from ultimate_jobs.errors import InvariantError, RowStatusUnknown

READY, DELAYED, RUNNING, SUSPENDED = (
    JobState.READY,
    JobState.DELAYED,
    JobState.RUNNING,
    JobState.SUSPENDED,
)

ONE_TARGET: dict[tuple[Verb, JobState], JobState] = {
    **{(Verb.CLAIM, state): RUNNING for state in (READY, DELAYED, SUSPENDED)},
    (Verb.RECLAIM, RUNNING): RUNNING,
    (Verb.COMPLETE, RUNNING): JobState.DONE,
    (Verb.RETRY, RUNNING): READY,
    (Verb.SUSPEND, RUNNING): SUSPENDED,
    (Verb.HAND_BACK, RUNNING): READY,
    (Verb.DEAD_LETTER, RUNNING): JobState.DEAD,
    (Verb.FAIL, RUNNING): JobState.FAILED,
    **{(Verb.CANCEL, state): JobState.CANCELLED for state in (READY, DELAYED, RUNNING, SUSPENDED)},
    **{
        (Verb.REQUEUE, state): READY
        for state in (JobState.DONE, JobState.FAILED, JobState.DEAD, JobState.CANCELLED)
    },
    (Verb.PROMOTE, READY): READY,
    (Verb.PROMOTE, DELAYED): READY,
    (Verb.WAKE, SUSPENDED): SUSPENDED,
}


@pytest.mark.parametrize(
    ("verb", "state"), list(itertools.product(Verb, JobState)), ids=lambda part: part.value
)
def test_a_verb_moves_a_state_where_the_table_says_or_is_refused(
    verb: Verb, state: JobState
) -> None:
    expected = ONE_TARGET.get((verb, state))

    if expected is not None:
        assert target_of(verb, state) is expected
    else:
        with pytest.raises(InvariantError) as caught:
            target_of(verb, state)
        assert verb in str(caught.value)


def test_every_verb_has_its_line() -> None:
    assert set(MOVES) == set(Verb)


def test_the_moves_with_two_targets_are_decided_by_what_they_find() -> None:
    assert MOVES[Verb.ENQUEUE].targets == {READY, DELAYED}
    assert MOVES[Verb.ENQUEUE].sources == frozenset()
    assert MOVES[Verb.BURY].targets == {JobState.DEAD, JobState.FAILED}


def test_a_job_is_live_or_it_has_ended() -> None:
    assert set(JobState) == LIVE | TERMINAL
    assert not LIVE & TERMINAL
    assert {RUNNING} == LIVE - WAITING


def test_only_operators_bring_an_ended_job_back() -> None:
    out_of_the_end = {verb for verb, move in MOVES.items() if move.sources & TERMINAL}

    assert out_of_the_end == {Verb.REQUEUE}


def test_what_a_worker_writes_about_a_run_is_fenced_by_its_claim() -> None:
    fenced = {verb for verb, move in MOVES.items() if move.claim_fenced}

    assert fenced == {
        Verb.COMPLETE,
        Verb.RETRY,
        Verb.SUSPEND,
        Verb.HAND_BACK,
        Verb.DEAD_LETTER,
        Verb.FAIL,
    }
    assert all(MOVES[verb].sources == {RUNNING} for verb in fenced)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        MOVES[Verb.WAKE] = MOVES[Verb.CLAIM]  # type: ignore[index]


@pytest.mark.parametrize("state", JobState)
def test_a_stored_state_is_read_as_itself(state: JobState) -> None:
    assert state_of(state.value) is state


@pytest.mark.parametrize("stored", ["", "Ready", "paused"])
def test_a_state_of_a_later_version_is_refused_by_its_code(stored: str) -> None:
    with pytest.raises(RowStatusUnknown) as caught:
        state_of(stored)
    assert caught.value.code == "X_JOB_ROW_STATUS_UNKNOWN"
