"""How far ahead a worker takes runs: by what the last bodies took, and by what claims came to."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as some

from ultimate_jobs.core.prefetch import HORIZON, TINY, Prefetch

MOST = 500
MILLISECOND = 0.001


def learned(seconds: float, bodies: int = 8, most: int = MOST) -> Prefetch:
    """Answer what has seen bodies of one length, and claims that came back full."""
    prefetch = Prefetch(bodies, most)
    for _ in range(20):
        prefetch.ended([seconds] * 4)
        prefetch.claimed(asked=bodies, got=bodies)
    return prefetch


def test_nothing_is_taken_ahead_before_a_body_has_ended() -> None:
    prefetch = Prefetch(8, MOST)

    prefetch.claimed(asked=8, got=8)

    assert prefetch.ahead == 0


@pytest.mark.parametrize(
    ("seconds", "ahead"),
    [(1e-6, MOST), (MILLISECOND, 160), (10 * MILLISECOND, 16), (HORIZON, 8), (1.0, 0)],
)
def test_what_waits_is_expected_to_start_within_the_horizon(seconds: float, ahead: int) -> None:
    assert learned(seconds).ahead == ahead


def test_none_is_ever_taken_ahead_where_that_is_switched_off() -> None:
    assert learned(1e-6, most=0).ahead == 0


def test_it_goes_twice_as_far_after_every_full_claim() -> None:
    prefetch = Prefetch(2, MOST)
    prefetch.ended([1e-6])
    seen = []
    for _ in range(4):
        prefetch.claimed(asked=2 + prefetch.ahead, got=2 + prefetch.ahead)
        seen.append(prefetch.ahead)

    assert seen == [8, 16, 32, 64]


def test_a_claim_that_came_short_says_how_many_there_are() -> None:
    prefetch = learned(1e-6)

    prefetch.claimed(asked=508, got=30)
    assert prefetch.ahead == 30

    prefetch.claimed(asked=38, got=0)
    assert prefetch.ahead == 8, "it goes on asking for a few"


def test_a_long_body_counts_at_once_and_is_forgotten_little_by_little() -> None:
    prefetch = learned(1e-6)

    prefetch.ended([1.0])
    assert prefetch.ahead == 0

    for _ in range(40):
        prefetch.ended([1e-6])
        prefetch.claimed(asked=8, got=8)
    assert prefetch.ahead == MOST


def test_bodies_are_tiny_when_most_of_them_are_whatever_the_others_take() -> None:
    prefetch = Prefetch(8, MOST)

    prefetch.ended([TINY / 2, TINY / 2, 1.0])
    assert prefetch.tiny

    prefetch.ended([TINY / 2, TINY, TINY])
    assert not prefetch.tiny


def test_it_starts_over_when_nothing_starts() -> None:
    prefetch = learned(1e-6)

    prefetch.stuck()
    assert (prefetch.ahead, prefetch.tiny) == (0, False)

    prefetch.claimed(asked=8, got=8)
    assert prefetch.ahead == 0


@given(
    some.lists(
        some.one_of(
            some.lists(some.floats(0, 100), max_size=5),
            some.tuples(some.integers(0, 600), some.integers(0, 600)),
        )
    ),
    some.integers(1, 50),
)
def test_it_never_goes_past_the_most(moves: list[object], bodies: int) -> None:
    prefetch = Prefetch(bodies, MOST)
    for move in moves:
        if isinstance(move, tuple):
            prefetch.claimed(*move)
        elif isinstance(move, list):
            prefetch.ended(move)
        assert 0 <= prefetch.ahead <= MOST
